"""From a short model, or its folder, to a long one, and to a folder again."""

import json
import os
import re
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from longspan.conversion import into_led
from longspan.conversion.architectures import ARCHITECTURES
from longspan.conversion.into_longformer import CLASSES, FAMILIES
from longspan.conversion.lengthen import lengthen
from longspan.conversion.loading import load_source
from longspan.conversion.model_card import licence_of
from longspan.conversion.saving import save_lengthened
from longspan.conversion.whole_directory import check_target, written_whole
from longspan.models import longformer_heads
from longspan.models.longformer import LongformerModel
from tests.conversion.short_models import assert_same, inputs, outputs, short_model

GRANITE = Path(__file__).parents[2].parent / "shared" / "models" / "granite-30m-english"
MINILM = Path(os.environ.get("LONGSPAN_MINILM", "no directory given"))
SENTENCE = (
    "The old lighthouse keeper climbed the stairs every evening, and wrote down the names of all the "
    "ships that he could see."
)


def save_short(model: PreTrainedModel, folder: Path, *, tokenizer: bool = True) -> Path:
    model.save_pretrained(folder)
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# Short\n")
    if tokenizer:
        words = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{i}" for i in range(95))]
        backend = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
        backend.pre_tokenizer = Whitespace()
        # As sentence encoders have it: the tokenizer itself cuts what is long.
        backend.enable_truncation(8)
        PreTrainedTokenizerFast(
            tokenizer_object=backend,
            model_max_length=40,
            pad_token="<pad>",
            sep_token="</s>",
            cls_token="<s>",
            unk_token="<unk>",
        ).save_pretrained(folder)
    return folder


def card_of(folder: Path) -> str:
    return (folder / "README.md").read_text()


def load_as_the_card_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> PreTrainedModel:
    monkeypatch.chdir(folder.parent)
    names: dict[str, PreTrainedModel] = {}
    exec(card_of(folder).split("```python\n")[1].split("```")[0], cast(dict[str, Any], names))
    return names["model"]


@pytest.mark.parametrize("name", ["RobertaForMaskedLM", "BertForSequenceClassification"])
def test_a_saved_model_is_the_same_here_and_in_transformers(name: str, tmp_path: Path) -> None:
    short = short_model(name)
    long = lengthen(short, 101, 16)
    save_lengthened(long, tmp_path / "long")
    given = inputs(long, (90, 33))
    wanted = outputs(long, given)
    kind = type(long).__name__
    for home in (longformer_heads, transformers):
        loaded = getattr(home, kind).from_pretrained(tmp_path / "long")
        assert_same(outputs(loaded, given), wanted)


def test_from_folder_to_folder(tmp_path: Path) -> None:
    source = save_short(short_model("BertForQuestionAnswering", sep_token_id=None), tmp_path / "short")
    long = lengthen(source, 100, 80)
    assert long.config.sep_token_id == 2  # the tokenizer knows it, BERT's configuration does not
    tokenizer = save_lengthened(long, tmp_path / "new" / "long", tokenizer_source=source)
    assert tokenizer is not None
    out = tmp_path / "new" / "long"
    assert [path.name for path in out.parent.iterdir()] == ["long"]
    written = {path.name for path in out.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= written
    assert json.loads((out / "config.json").read_text())["longspan"]["source"] == "short"

    loaded = longformer_heads.LongformerForQuestionAnswering.from_pretrained(out)
    given = inputs(loaded)
    assert_same(outputs(loaded, given), outputs(load_source(source), given))

    reader = AutoTokenizer.from_pretrained(out)
    text = " ".join(f"w{i % 95}" for i in range(300))
    assert reader.model_max_length == 100
    assert len(reader(text, truncation=True)["input_ids"]) == 100
    assert len(Tokenizer.from_file(str(out / "tokenizer.json")).encode(text).ids) == 100


def test_the_card_says_what_was_made(tmp_path: Path) -> None:
    source = save_short(short_model("RobertaForMaskedLM"), tmp_path / "short", tokenizer=False)
    long = lengthen(source, 100, 16, positions="random", seed=7)
    assert save_lengthened(long, tmp_path / "long", tokenizer_source=source) is None
    card = card_of(tmp_path / "long")
    assert card.startswith("---\nlicense: apache-2.0\n")
    for said in (
        "`short` (`RobertaForMaskedLM`)",
        "`LongformerForMaskedLM`",
        f"{long.num_parameters():,}",
        "100 tokens",
        "16 tokens",
        "random ones (seed 7)",
        'LongformerForMaskedLM.from_pretrained("long")  # that of transformers loads it too',
        "On inputs of up to 9 tokens",
        "pretrain it further",
    ):
        assert said in card
    assert str(tmp_path) not in card


def test_the_card_loads_what_was_saved_without_a_pooler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = lengthen(short_model("BertModel", pooler=False), 100, 17)
    save_lengthened(long, tmp_path / "long")
    card = card_of(tmp_path / "long")
    assert "that of transformers" not in card  # which has no odd windows
    assert "made from a `BertModel`" in card
    assert "license:" not in card
    loaded = load_as_the_card_says(tmp_path / "long", monkeypatch)
    assert isinstance(loaded, LongformerModel)
    given = inputs(loaded)
    assert_same(outputs(loaded, given), outputs(long, given))


@pytest.mark.parametrize(
    ("readme", "licence"),
    [
        ("---\nlicense: mit\n---\n", "mit"),
        ("---\ntags:\n- x\nlicense:\n- cc-by-4.0\n---\n", "cc-by-4.0"),
        ('---\nlicense: "apache-2.0"\n---\n', "apache-2.0"),
        ("---\nlicense:\nlanguage: en\n---\n", None),
        ("# Model\nlicense: mit\n", None),
    ],
)
def test_licence_is_read_from_the_front_matter(readme: str, licence: str | None, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(readme)
    assert licence_of(tmp_path) == licence


def test_in_place_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = short_model("RobertaForMaskedLM")
    given = inputs(short)
    wanted = outputs(short, given)
    long = lengthen(short, 100, 80, into="same")
    assert long is short
    assert_same(outputs(long, given), wanted)
    save_lengthened(long, tmp_path / "long")
    loaded = load_as_the_card_says(tmp_path / "long", monkeypatch)
    assert isinstance(loaded, transformers.RobertaForMaskedLM)
    given = inputs(short, (100, 51))
    assert_same(outputs(loaded, given), outputs(long, given))


def test_auto_is_in_place_where_there_is_no_longformer() -> None:
    config = transformers.ElectraConfig(
        vocab_size=99,
        embedding_size=32,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        max_position_embeddings=40,
    )
    short = transformers.ElectraModel(config).eval()
    long = lengthen(short, 100, 16)
    assert long is short
    assert long.config.longspan["source_class"] == "ElectraModel"
    assert outputs(long, inputs(long, (100,)))["last_hidden_state"].isfinite().all()


def test_a_folder_without_pooler_weights_gives_a_model_without_pooler(tmp_path: Path) -> None:
    short_model("RobertaModel", pooler=False).save_pretrained(tmp_path)
    long = lengthen(tmp_path, 100)
    assert isinstance(long, LongformerModel)
    assert long.pooler is None


def test_a_folder_of_a_longformer_gives_a_longer_one(tmp_path: Path) -> None:
    # With an odd window transformers has no class for it.
    save_lengthened(lengthen(short_model("RobertaForTokenClassification"), 60, 7), tmp_path / "long")
    longer = lengthen(tmp_path / "long", 90, 7)
    assert isinstance(longer, longformer_heads.LongformerForTokenClassification)
    assert longer.config.max_position_embeddings == 92


def test_incomplete_checkpoint_is_refused(tmp_path: Path) -> None:
    short_model("RobertaModel").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["architectures"] = ["RobertaForTokenClassification"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"lacks weights of RobertaForTokenClassification: classifier\.bias"):
        lengthen(tmp_path, 100)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ({"into": "bigbird"}, "into is 'bigbird'"),
        ({"positions": "zero"}, "positions is 'zero'"),
        ({"window": 1}, "window is 1"),
        ({"max_length": 39}, "max_length is 39"),
        ({"max_length": 39, "into": "same"}, "max_length is 39"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, str], hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        lengthen(short_model("RobertaModel"), **arguments)  # pyright: ignore[reportArgumentType]


def test_what_nothing_can_lengthen_is_refused_with_both_reasons() -> None:
    config = transformers.MPNetConfig(vocab_size=99, hidden_size=24, num_hidden_layers=1)
    with pytest.raises(ValueError, match=r"in place.*cannot become a Longformer.*'mpnet'"):
        lengthen(transformers.MPNetModel(config), 4096)


def test_only_what_lengthen_made_is_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="RobertaModel that lengthen did not make"):
        save_lengthened(short_model("RobertaModel"), tmp_path / "out")


def test_nothing_is_half_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").touch()
    with pytest.raises(RuntimeError), written_whole(out) as folder:
        (folder / "new").touch()
        raise RuntimeError
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "old"]
    with written_whole(out) as folder:
        (folder / "new").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "new"]


def test_target_must_not_lose_anything(tmp_path: Path) -> None:
    source, out = tmp_path / "models" / "short", tmp_path / "out"
    source.mkdir(parents=True)
    check_target(out, source=source)
    out.mkdir()
    check_target(out, source=source)
    (out / "file").touch()
    check_target(out, overwrite=True)
    with pytest.raises(ValueError, match="not empty"):
        check_target(out)
    with pytest.raises(ValueError, match="a file"):
        check_target(out / "file", overwrite=True)
    for holder in (source, source.parent):
        with pytest.raises(ValueError, match="where the source is"):
            check_target(holder, source=source, overwrite=True)


@pytest.mark.skipif(not GRANITE.is_dir(), reason=f"the real weights are not in {GRANITE}")
def test_granite_computes_what_it_did_and_reads_4000_tokens() -> None:
    short = transformers.RobertaModel.from_pretrained(GRANITE, dtype=torch.float64, add_pooling_layer=False)
    check_sentence_encoder(short, GRANITE)


@pytest.mark.slow
@pytest.mark.skipif(not MINILM.is_dir(), reason="LONGSPAN_MINILM names no folder with all-MiniLM-L6-v2")
def test_minilm_computes_what_it_did_and_reads_4000_tokens() -> None:
    check_sentence_encoder(transformers.BertModel.from_pretrained(MINILM, dtype=torch.float64), MINILM)


def check_sentence_encoder(short: PreTrainedModel, folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    given = dict(tokenizer([SENTENCE, SENTENCE[:40]], padding=True, return_tensors="pt"))
    long = lengthen(short.eval(), 4096, 512)
    assert_same(outputs(long, given), outputs(short, given))
    many = cast(list[int], tokenizer(" ".join([SENTENCE] * 200))["input_ids"])[:4000]
    assert len(many) == 4000
    ids = torch.tensor([many])
    states = outputs(long, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})["last_hidden_state"]
    assert states.shape[1] == 4000 and states.isfinite().all()


def test_the_page_lists_what_can_be_lengthened() -> None:
    page = (Path(__file__).parents[2] / "docs" / "lengthen.md").read_text()
    rows = re.findall(r"^\| (.+) \| (yes|no) \| (yes|no) \| (yes|no) \|$", page, flags=re.MULTILINE)
    listed = {
        name: (longformer == "yes", led == "yes", same == "yes")
        for names, longformer, led, same in rows
        for name in re.findall(r"`(.+?)`", names)
    }
    known = {name for name in {*FAMILIES, *into_led.FAMILIES, *ARCHITECTURES} if "longspan" not in name}
    assert listed == {
        name: (name in FAMILIES, name in into_led.FAMILIES, name in ARCHITECTURES) for name in known
    }
    assert all(f"`{ending}`" in page for ending in (*CLASSES, *into_led.CLASSES))
