"""Questions over several paragraphs as inputs: markers, targets, windows, what is cut."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from longspan.data.examples import MultiHopQuestion
from longspan.data.hotpotqa import split_hotpotqa
from longspan.tasks.multihop_features import MARKERS, MultiHopReader, targets, texts
from longspan.tasks.multihop_qa import MultiHopQA, MultiHopSettings
from longspan.tasks.task import Feature
from tests.tasks.multihop_cases import DOGS, FILMS, RIVERS, question, task
from tests.tasks.tiny import SHORT_LENGTH, tiny_tokenizer

SHARED = Path(__file__).parents[2].parent / "shared"

_TOKENIZER = tiny_tokenizer()


def decoded(of: MultiHopQA, feature: Feature) -> str:
    return of.tokenizer.decode(feature["input_ids"])


def said(example: MultiHopQuestion, feature: Feature) -> list[tuple[int, int | None, str]]:
    """The answers that a feature marks: paragraph, sentence and characters."""
    starts, ends = np.flatnonzero(feature["is_start"]), np.flatnonzero(feature["is_end"])
    out: list[tuple[int, int | None, str]] = []
    for first, last in zip(starts, ends, strict=True):
        assert feature["text"][first] == feature["text"][last] >= 0
        one = texts(example)[feature["text"][first]]
        out.append((one.paragraph, one.sentence, one.text[feature["start"][first] : feature["end"][last]]))
    return out


def test_one_input() -> None:
    of = task()
    (feature,) = of.features(RIVERS, training=False)
    assert decoded(of, feature) == (
        "<s>[q] Where is the city?[/q]"
        "<t> Lima</t> Lima is in Peru.[s] It is not Passau.[s]"
        "<t> Passau</t> Passau lies at the Inn.[s] Here it meets the Danube.[s]"
        "<t> Inn</t> The Inn flows from Switzerland.[s]</s>"
    )
    tokens = of.tokenizer.convert_ids_to_tokens(feature["input_ids"])
    assert [tokens[at] for at in feature["title_at"]] == ["<t>"] * 3
    assert [tokens[at] for at in feature["sentence_at"]] == ["[s]"] * 5
    numbered = [texts(RIVERS)[feature["text"][at]][:2] for at in feature["sentence_at"]]
    assert numbered == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    assert feature["is_relevant"].tolist() == [0, 1, 1]
    assert feature["is_support"].tolist() == [0, 0, 1, 0, 1]
    assert feature["kind"].tolist() == [0]
    assert said(RIVERS, feature) == [(1, 0, "Inn"), (2, None, "Inn"), (2, 0, "Inn")]
    question_ends = tokens.index("[/q]")
    marked = {*range(question_ends + 1), *feature["title_at"].tolist(), *feature["sentence_at"].tolist()}
    assert set(np.flatnonzero(feature["is_global"]).tolist()) == marked
    # Every token that an answer may have says its own characters.
    for at in np.flatnonzero(feature["start"] >= 0):
        text = texts(RIVERS)[feature["text"][at]].text
        piece = of.tokenizer.decode(feature["input_ids"][at]).strip()
        assert text[feature["start"][at] : feature["end"][at]] == piece


def test_without_global_tokens() -> None:
    (feature,) = task(global_tokens=False).features(RIVERS, training=False)
    assert not feature["is_global"].any()


@pytest.mark.parametrize(("example", "kind"), [(RIVERS, 0), (FILMS, 1), (DOGS, 2)])
def test_kinds(example: MultiHopQuestion, kind: int) -> None:
    (feature,) = task().features(example, training=False)
    assert feature["kind"].tolist() == [kind]
    # "Yes, she said." is in the text; a question of yes or no has no place for its answer all the same.
    assert feature["is_start"].any() == feature["is_end"].any() == (kind == 0)


def test_answers_at_borders() -> None:
    example = question(("Ada", ["Ada wrote", " the program of Ada"]), facts=[(0, 0)], answer=" ada ")
    (feature,) = task().features(example, training=True)
    assert said(example, feature) == [(0, None, "Ada"), (0, 0, "Ada"), (0, 1, "Ada")]


def test_an_answer_of_irrelevant_paragraphs_counts_only_where_no_other_has_it() -> None:
    paragraphs = ("A", ["Lima."]), ("B", ["Peru.", " Lima."]), ("C", ["Paris."])
    right = targets(
        elsewhere := question(*paragraphs, facts=[(1, 0), (2, 0)], answer="Lima"), texts(elsewhere)
    )
    assert right.answers == {4: [(1, 5)]}
    nowhere_else = question(*paragraphs, facts=[(2, 0)], answer="Lima")
    assert targets(nowhere_else, texts(nowhere_else)).answers == {1: [(0, 4)], 4: [(1, 5)]}
    no_facts = question(*paragraphs, answer="Lima")
    right = targets(no_facts, texts(no_facts))
    assert right.answers == {1: [(0, 4)], 4: [(1, 5)]}
    assert right.is_right == [-1] * 7


def test_what_looks_like_a_marker_is_text() -> None:
    of = task()
    example = question(("<t>", ["a [s] b </s>"]), text="[/q] <pad>")
    (feature,) = of.features(example, training=False)
    assert decoded(of, feature) == "<s>[q] [/q] <pad>[/q]<t> <t></t> a [s] b </s>[s]</s>"
    ids = feature["input_ids"].tolist()
    assert [ids.count(of.tokenizer.convert_tokens_to_ids(one)) for one in ("[s]", "</s>", "<pad>")] == [
        1,
        1,
        0,
    ]


def test_the_tokenizer_is_extended_once() -> None:
    tokenizer = tiny_tokenizer()
    before = len(tokenizer)
    for _ in range(2):
        MultiHopQA(MultiHopSettings(), tokenizer)
        assert len(tokenizer) == before + len(MARKERS)


def test_windows_have_whole_paragraphs() -> None:
    of = task(max_length=44)
    features = list(of.features(RIVERS, training=False))
    assert len(features) == 3
    for paragraph, feature in enumerate(features):
        assert len(feature["input_ids"]) <= 44
        assert decoded(of, feature).startswith("<s>[q] Where is the city?[/q]<t>")
        (title,) = (texts(RIVERS)[number] for number in feature["text"][feature["title_at"]])
        assert title == (paragraph, None, RIVERS.paragraphs[paragraph].title)
    assert [one["kind"].item() for one in features] == [-1, 0, 0]
    # The first says "there is no answer here", at its first token.
    assert np.flatnonzero(features[0]["is_start"]).tolist() == [0]
    assert np.flatnonzero(features[0]["is_end"]).tolist() == [0]
    assert [said(RIVERS, one) for one in features[1:]] == [[(1, 0, "Inn")], [(2, None, "Inn"), (2, 0, "Inn")]]


def test_a_paragraph_that_is_too_long_is_shared_out() -> None:
    of = task(max_length=SHORT_LENGTH)
    sentences = [f" {number} was a good film, a very good film, and the longest one." for number in range(7)]
    example = question(("Film", sentences), ("Book", ["The book."]), facts=[(0, 5)], answer="5")
    features = list(of.features(example, training=True))
    pieces = [one for one in features if "Film" in decoded(of, one)]
    assert len(pieces) > 1
    assert all(one["text"][one["title_at"][0]] == 0 and one["is_relevant"][0] == 1 for one in pieces)
    read = [one["text"][at] for one in features for at in one["sentence_at"]]
    assert read == [1, 2, 3, 4, 5, 6, 7, 9]
    assert [said(example, one) for one in pieces if one["is_start"][1:].any()] == [[(0, 5, "5")]]


def test_what_leaves_no_room_is_cut() -> None:
    of = task(max_length=32)
    long = " Lima" * 100
    example = question((long, [long, " Peru"]), ("B", [long]), text=long, facts=[(0, 1)], answer="Peru")
    features = list(of.features(example, training=True))
    assert all(len(one["input_ids"]) <= 32 for one in features)
    assert [one["text"][at] for one in features for at in one["sentence_at"]] == [1, 2, 4]
    assert [said(example, one) for one in features if one["is_start"][1:].any()] == [[(0, 1, "Peru")]]


def test_an_answer_that_is_cut_off_is_not_there() -> None:
    example = question(("A", ["Lima " * 100 + "Vienna"]), facts=[(0, 0)], answer="Lima Vienna")
    (feature,) = task(max_length=64).features(example, training=True)
    assert np.flatnonzero(feature["is_start"]).tolist() == [0]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.text("Ab. <", max_size=30), st.lists(st.text("Ab. [s]", max_size=60), max_size=4)),
        max_size=5,
    ),
    st.text("Who ?", max_size=40),
    st.integers(32, 90),
)
def test_every_text_is_read_once(paragraphs: list[tuple[str, list[str]]], text: str, length: int) -> None:
    example = question(*paragraphs, text=text)
    reader = MultiHopReader(_TOKENIZER, max_length=length, global_tokens=True)
    everything = range(len(paragraphs))
    whole_reader = MultiHopReader(_TOKENIZER, max_length=4096, global_tokens=True)
    (whole,) = whole_reader.features(example, everything)
    features = list(reader.features(example, everything))
    assert all(len(one["input_ids"]) <= length for one in features)
    numbers = [number for one in features for number in one["text"][one["sentence_at"]].tolist()]
    assert numbers == whole["text"][whole["sentence_at"]].tolist()
    titles = [number for one in features for number in one["text"][one["title_at"]].tolist()]
    assert list(dict.fromkeys(titles)) == whole["text"][whole["title_at"]].tolist()
    lengths = np.bincount(whole["text"][whole["text"] >= 0], minlength=len(texts(example)))
    room = length - 4 - min(len(_TOKENIZER(text, add_special_tokens=False)["input_ids"]) + 1, length // 2 - 4)
    for number, one in enumerate(texts(example)):
        belongs = [other.paragraph == one.paragraph for other in texts(example)]
        if one.sentence is None and lengths[belongs].sum() <= room and lengths[number] - 2 <= room // 3:
            assert titles.count(number) == 1, "a paragraph that fits was taken apart"


def test_nothing_to_learn() -> None:
    of = task()
    unknown = question(("A", ["B"]))
    assert list(of.features(unknown, training=True)) == []
    (feature,) = of.features(unknown, training=False)
    assert (
        feature["kind"].tolist() == feature["is_relevant"].tolist() == feature["is_support"].tolist() == [-1]
    )
    (known,) = of.features(RIVERS, training=False)
    assert {name: array.dtype for name, array in feature.items()} == {
        name: array.dtype for name, array in known.items()
    }


def test_training_has_second_readings() -> None:
    of = task(max_paragraphs=4)
    paragraphs = [(f"Title {at}", [f"Lima {at}."]) for at in range(9)]
    example = question(*paragraphs, facts=[(3, 0), (7, 0)], answer="Lima 7")
    first, second = of.features(example, training=True)
    assert len(first["title_at"]) == 9
    chosen = [texts(example)[number].paragraph for number in second["text"][second["title_at"]]]
    assert len(chosen) == 4 and {3, 7} < set(chosen) and chosen == sorted(chosen)
    assert second["is_relevant"].tolist() == [int(at in (3, 7)) for at in chosen]
    (_, again) = of.features(example, training=True)
    assert np.array_equal(again["input_ids"], second["input_ids"])
    assert len(list(of.features(example, training=False))) == 1
    assert len(list(task(train_second_reading=False).features(example, training=True))) == 1
    assert len(list(task(max_paragraphs=9).features(example, training=True))) == 1
    many = question(*paragraphs, facts=[(at, 0) for at in range(5)], answer="Lima 1")
    assert len(list(of.features(many, training=True))[1]["title_at"]) == 5


@pytest.mark.slow
@pytest.mark.parametrize("length", [4096, 512])
def test_hotpotqa_itself(length: int) -> None:
    data = SHARED / "data" / "hotpotqa" / "hotpot_dev_distractor_v1.json.xz"
    model = SHARED / "models" / "granite-30m-english"
    for needed in (data, model):
        if not needed.exists():
            pytest.skip(f"{needed.name} is not at hand")
    of = MultiHopQA(MultiHopSettings(max_length=length), AutoTokenizer.from_pretrained(model))
    examples = split_hotpotqa(data, seed=0).dev
    spans = found = exact = 0
    lengths: list[int] = []
    for example in examples:
        features = list(of.features(example, training=False))
        lengths += [len(one["input_ids"]) for one in features]
        if example.answer not in ("yes", "no"):
            spans += 1
            answers = [
                answer for one in features if one["is_start"][1:].any() for *_, answer in said(example, one)
            ]
            found += bool(answers)
            exact += (example.answer or "").strip().lower() in [answer.strip().lower() for answer in answers]
    assert max(lengths) <= length
    assert found / spans > 0.995
    # The rest ends within a token, such as '".' for '"'.
    assert exact / spans > 0.98
    if length == 4096:
        assert len(lengths) == len(examples)
        assert 1316 < np.mean(lengths) < 1316 + 100, "table 6 of the paper, without our markers"
