"""Parts of data sets: official where there are some, else seeded, and never overlapping."""

import json
from pathlib import Path
from typing import Any

import pytest

from longspan.data.classification import read_labelled, split_hyperpartisan
from longspan.data.examples import LabelledDocument, Question
from longspan.data.parts import read_part
from longspan.data.splits import Splits, train_dev_test

PUBLISHED = ["6", "7", "15", "26", "32"]
"""What `#test` of 50 reviews with the ids 0 to 49 is."""


def _reviews(path: Path, count: int) -> Path:
    lines = (json.dumps({"id": at, "text": f"text {at}", "label": "ab"[at % 2]}) for at in range(count))
    path.write_text("\n".join(lines))
    return path


def _ids(where: str, root: Path, seed: int = 0) -> list[str]:
    return [example.id for example in read_part(where, "classification", root=root, seed=seed)]


def test_parts_are_disjoint_and_complete(tmp_path: Path) -> None:
    _reviews(tmp_path / "reviews.jsonl", 50)
    parts = [_ids(f"reviews.jsonl#{part}", tmp_path) for part in ("train", "dev", "test")]
    assert [len(part) for part in parts] == [40, 5, 5]
    assert sorted(sum(parts, [])) == sorted(_ids("reviews.jsonl", tmp_path))
    assert _ids("reviews.jsonl#dev", tmp_path, seed=1) != parts[1]


def test_a_part_is_that_of_the_split_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = _reviews(tmp_path / "reviews.jsonl", 50)
    split = train_dev_test(read_labelled(path), seed=3)
    for part in Splits._fields:
        ids = _ids(f"reviews.jsonl#{part}", tmp_path, seed=3)
        assert sorted(ids) == sorted(example.id for example in getattr(split, part))
        assert ids == sorted(ids, key=int)
    # The split of a seed never changes, whoever made it.
    assert _ids("reviews.jsonl#test", tmp_path) == PUBLISHED


def test_a_part_of_a_data_set_keeps_its_strata_and_groups(tmp_path: Path) -> None:
    articles = "".join(
        f'<article id="{at}" title="t"><p>{"twin of the other one" if at < 2 else f"text {at}"}</p></article>'
        for at in range(30)
    )
    truth = "".join(f'<article id="{at}" hyperpartisan="{str(at % 2 == 0).lower()}" />' for at in range(30))
    (tmp_path / "articles-a.xml").write_text(f"<articles>{articles}</articles>")
    (tmp_path / "ground-truth-a.xml").write_text(f"<articles>{truth}</articles>")
    split = split_hyperpartisan(tmp_path / "articles-a.xml", seed=0)
    for part in Splits._fields:
        found = {one.id for one in read_part(f"articles-a.xml#{part}", "hyperpartisan", root=tmp_path)}
        assert found == {one.id for one in getattr(split, part)}
        assert len({"0", "1"} & found) != 1


def test_a_dialogue_stays_in_one_part(tmp_path: Path) -> None:
    asked = "".join(f"question{at}: What?\n answer : ?\n" for at in range(1, 4)).rstrip("\n")
    said = "\n".join(f"possible answers for question{at}:\nyes" for at in range(1, 4))
    record = {"passage": "He says yes. CANNOTANSWER", "question": asked, "answer": said}
    (tmp_path / "quac.jsonl").write_text("\n".join([json.dumps(record)] * 20))
    parts: list[set[str]] = []
    for part in Splits._fields:
        questions = list(read_part(f"quac.jsonl#{part}", "quac", root=tmp_path))
        parts.append({one.dialogue for one in questions if isinstance(one, Question)})
    assert [len(part) for part in parts] == [16, 2, 2] and len(set.union(*parts)) == 20


def test_questions_about_one_article_stay_in_one_part(tmp_path: Path) -> None:
    def paragraph(article: int, number: int) -> dict[str, Any]:
        answer = {"text": "Rome", "answer_start": 0}
        return {
            "context": f"Rome {article} {number}",
            "qas": [
                {"id": f"{article}/{number}/{at}", "question": "Where?", "answers": [answer]}
                for at in range(5)
            ],
        }

    articles = [
        {"title": f"Article/{at}", "paragraphs": [paragraph(at, number) for number in range(4)]}
        for at in range(30)
    ]
    (tmp_path / "squad.json").write_text(json.dumps({"data": articles}))
    parts = [
        {one.id.split("/")[0] for one in read_part(f"squad.json#{part}", "squad", root=tmp_path)}
        for part in Splits._fields
    ]
    assert [len(part) for part in parts] == [24, 3, 3] and len(set.union(*parts)) == 30


def test_a_question_asked_twice_stays_in_one_part(tmp_path: Path) -> None:
    (tmp_path / "evidence" / "wikipedia").mkdir(parents=True)
    (tmp_path / "evidence" / "wikipedia" / "Inn.txt").write_text("The Inn.")
    records = [
        {
            "QuestionId": f"{at}/{again}",
            "Question": f"Which river {'IS' if again else 'is '} number {at}?",
            "EntityPages": [{"Filename": "Inn.txt"}],
            "Answer": {"Value": "Inn", "Aliases": ["Inn"]},
        }
        for at in range(20)
        for again in range(2)
    ]
    (tmp_path / "qa").mkdir()
    whole = {"Data": records, "Domain": "Wikipedia"}
    (tmp_path / "qa" / "wikipedia-dev.json").write_text(json.dumps(whole))
    parts = [
        {
            one.id.split("/")[0]
            for one in read_part(f"qa/wikipedia-dev.json#{part}", "triviaqa", root=tmp_path)
        }
        for part in Splits._fields
    ]
    assert [len(part) for part in parts] == [16, 2, 2] and len(set.union(*parts)) == 20


def test_questions_about_the_same_documents_stay_in_one_part(tmp_path: Path) -> None:
    records = [
        {"id": f"{at}/{number}", "question": "Who?", "documents": [{"id": "d", "text": f"Text {at}."}]}
        for number in range(3)
        for at in range(20)
    ]
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, records)))
    parts = [
        {one.id.split("/")[0] for one in read_part(f"qa.jsonl#{part}", "qa", root=tmp_path)}
        for part in Splits._fields
    ]
    assert [len(part) for part in parts] == [16, 2, 2] and len(set.union(*parts)) == 20


def test_official_parts_are_taken(tmp_path: Path) -> None:
    records = [
        {"split": split, "id": at, "rating": 9, "label": 1, "text": f"{split} {at}"}
        for split in ("train", "test")
        for at in range(3)
    ]
    (tmp_path / "imdb.jsonl").write_text("\n".join(map(json.dumps, records)))
    found = list(read_part("imdb.jsonl#test", "imdb", root=tmp_path))
    assert [example.id.split("/")[0] for example in found] == ["test"] * 3
    with pytest.raises(ValueError, match="the part is 'all'; it must be one of train, test, fit, dev"):
        read_part("imdb.jsonl#all", "imdb", root=tmp_path)


def test_imdbs_training_part_has_a_seeded_dev_part(tmp_path: Path) -> None:
    records = [
        {
            "split": split,
            "id": at,
            "rating": 9,
            "label": at % 2,
            "text": "twin" if at < 2 else f"{split} {at}",
        }
        for split in ("train", "test")
        for at in range(100)
    ]
    (tmp_path / "imdb.jsonl").write_text("\n".join(map(json.dumps, records)))
    fit, dev, train = (
        list(read_part(f"imdb.jsonl#{part}", "imdb", root=tmp_path)) for part in ("fit", "dev", "train")
    )
    assert [len(fit), len(dev), len(train)] == [90, 10, 100]
    assert {one.id for one in (*fit, *dev)} == {one.id for one in train}
    labels = [one.label for one in dev if isinstance(one, LabelledDocument)]
    assert labels.count("pos") == 5
    assert len({"train/neg/0_9", "train/pos/1_9"} & {one.id for one in dev}) != 1, "the same text, twice"


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="none.jsonl does not exist"):
        read_part("none.jsonl#train", "classification", root=tmp_path)
