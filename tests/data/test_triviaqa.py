"""TriviaQA's JSON with its evidence files."""

import json
from pathlib import Path
from typing import Any

import pytest

from longspan.data.examples import Document, Span
from longspan.data.triviaqa import read_triviaqa, wording_of

from .writing import write


def trivia(tmp_path: Path, domain: str = "Wikipedia", **change: Any) -> Path:
    record: dict[str, Any] = {
        "Answer": {
            "Aliases": ["The Danube", "Donau"],
            "NormalizedAliases": ["danube", "donau"],
            "Type": "WikipediaEntity",
            "Value": "Danube",
        },
        "EntityPages": [{"DocSource": "TagMe", "Filename": "Vienna.txt", "Title": "Vienna"}],
        "Question": "Which river flows through Vienna?",
        "QuestionId": "tc_1",
        "QuestionSource": "http://example.org",
        "SearchResults": [{"Filename": "12/12_34.txt", "Rank": 0, "Title": "Rivers", "Url": "http://e.org"}],
    } | change
    whole = {"Data": [record], "Domain": domain, "VerifiedEval": False, "Version": 1.0}
    write(tmp_path / "evidence/wikipedia/Vienna.txt", "Vienna lies on the Danube (Donau).\n")
    write(tmp_path / "evidence/web/12/12_34.txt", "Danubes? The danube!")
    return write(tmp_path / "qa/web-train.json", json.dumps(whole))


def test_documents_answers_and_where_they_stand(tmp_path: Path) -> None:
    (question,) = read_triviaqa(trivia(tmp_path))
    assert (question.id, question.question) == ("tc_1", "Which river flows through Vienna?")
    assert question.documents == (
        Document(id="Vienna.txt", text="Vienna lies on the Danube (Donau).\n"),
        Document(id="12/12_34.txt", text="Danubes? The danube!"),
    )
    assert question.answers == ("danube", "donau")  # as the official script has them
    assert question.spans == (Span(0, 15, 25), Span(0, 27, 32), Span(1, 9, 19))
    assert not question.is_impossible
    assert question.scored_by == "triviaqa"


def test_in_the_web_domain_every_document_is_an_example(tmp_path: Path) -> None:
    """The official script scores each, by the question's id and the file's name."""
    first, second = read_triviaqa(trivia(tmp_path, "Web"))
    assert (first.id, second.id) == ("tc_1--Vienna.txt", "tc_1--12/12_34.txt")
    assert [len(one.documents) for one in (first, second)] == [1, 1]
    assert second.documents[0].text == "Danubes? The danube!" and second.spans == (Span(0, 9, 19),)
    assert first.question == second.question and first.answers == second.answers
    assert wording_of(first) == wording_of(second)


def test_the_domain_must_be_known(tmp_path: Path) -> None:
    path = trivia(tmp_path)
    path.write_text(path.read_text().replace("Domain", "domain"))
    with pytest.raises(ValueError, match="web-train.json: Domain is missing; it must be a string"):
        list(read_triviaqa(path))


def test_human_answers_count_and_a_test_set_has_none(tmp_path: Path) -> None:
    answer: dict[str, Any] = {
        "Aliases": [],
        "Value": "Danube",
        "HumanAnswers": ["the river Danube", "Danube"],
    }
    (question,) = read_triviaqa(trivia(tmp_path, Answer=answer), tmp_path / "evidence")
    assert question.answers == ("Danube", "the river Danube")
    answer["NormalizedAliases"] = ["danube"]
    (question,) = read_triviaqa(trivia(tmp_path, Answer=answer))
    assert question.answers == ("danube", "the river Danube", "Danube")
    (question,) = read_triviaqa(trivia(tmp_path, Answer=None, SearchResults=[]))
    assert (question.answers, question.spans, len(question.documents)) == ((), (), 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"EntityPages": [{"Filename": "Graz.txt"}]},
            r"record 1, EntityPages\[0\]: Filename is 'Graz.txt'; it must be a file in .*wikipedia",
        ),
        ({"Answer": {"Value": "Danube"}}, "record 1, Answer: Aliases is missing"),
        ({"QuestionId": 4}, "record 1: QuestionId is 4; it must be a string"),
        ({"Answer": "Danube"}, "Answer is 'Danube'; it must be an object"),
    ],
)
def test_refuses(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_triviaqa(trivia(tmp_path, **change)))


def test_evidence_must_be_utf_8(tmp_path: Path) -> None:
    path = trivia(tmp_path)
    write(tmp_path / "evidence/web/12/12_34.txt", b"caf\xe9")
    with pytest.raises(ValueError, match=r"12_34.txt: byte 3 begins .* must be UTF-8"):
        list(read_triviaqa(path))
