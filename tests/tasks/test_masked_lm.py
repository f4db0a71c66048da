"""Masked language modelling: windows, masks, loss, blanks, scores, and models that learn."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from torch.nn import functional as F

import longspan
from longspan.data.examples import Document
from longspan.tasks.masked_lm import (
    LEAST_TOKENS,
    MASKED,
    NO_LABEL,
    REPLACED,
    MaskedLM,
    MaskedLMSettings,
    Masker,
    WindowScores,
)
from longspan.tasks.models import ModelSettings
from longspan.tasks.task import Batch
from tests.tasks.tiny import ATTENTION_WINDOW, tiny_longformer, tiny_roberta, tiny_tokenizer

TEXT = "Ada Lovelace wrote the first program for a machine that nobody had built."
ODD_TEXTS = ["", "a", "  Héllo  wörld 🎉🎉 end\n\n x  ", "\n", "日本語 text", TEXT * 9]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "long": tiny_longformer(folder / "long"),
        "short": tiny_roberta(folder / "short"),
    }


def task(**changes: Any) -> MaskedLM:
    settings: dict[str, Any] = {"max_length": 64} | changes
    return MaskedLM(MaskedLMSettings(**settings), tiny_tokenizer())


def document(text: str, name: str = "d") -> Document:
    return Document(id=name, text=text)


def batch_of(of: MaskedLM, *texts: str, first_seed: int = 0) -> Batch:
    features = [feature for text in texts for feature in of.features(document(text), training=False)]
    return of.collate(features, [first_seed + at for at in range(len(features))])


def built(of: MaskedLM, folder: Path, **settings: Any) -> Any:
    return cast(Any, of.build(ModelSettings(source=str(folder), **settings))).eval()


def no_grad_outputs(of: MaskedLM, model: nn.Module, batch: Batch) -> list[WindowScores]:
    with torch.no_grad():
        return of.outputs(model, batch)


def all_logits(model: Any, batch: Batch) -> Tensor:
    """The model's own way: a projection of every token."""
    masks: dict[str, Tensor] = {"attention_mask": batch["attention_mask"]}
    if isinstance(model, longspan.LongformerForMaskedLM):
        masks["global_attention_mask"] = torch.zeros_like(batch["input_ids"])
    return model(input_ids=batch["input_ids"], **masks).logits


@pytest.mark.parametrize("text", ODD_TEXTS)
@pytest.mark.parametrize("max_length", [8, 13, 512])
def test_windows_hold_every_token_and_every_character_once(text: str, max_length: int) -> None:
    it = task(max_length=max_length)
    features = list(it.features(document(text), training=False))
    assert features
    whole = it.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    assert [int(i) for one in features for i in one["input_ids"][1:-1]] == whole
    assert all(one["input_ids"][0] == 0 and one["input_ids"][-1] == 2 for one in features)
    assert all(len(one["input_ids"]) == max_length for one in features[:-1])
    assert len(features[-1]["input_ids"]) <= max_length
    characters = np.concatenate([one["characters"] for one in features])
    assert characters.min() >= 0
    assert characters.sum() == (len(text) if whole else 0)
    assert all(one["characters"].shape == one["input_ids"].shape for one in features)
    assert all(one["characters"][0] == one["characters"][-1] == 0 for one in features)


def test_a_token_spells_the_space_before_it_and_a_divided_character_once() -> None:
    (feature,) = task().features(document("a  b 🎉"), training=False)
    pieces = task().tokenizer.convert_ids_to_tokens(feature["input_ids"].tolist())
    assert pieces[:4] == ["<s>", "a", "Ġ", "Ġb"]
    assert feature["characters"].tolist()[:4] == [0, 1, 1, 2]
    # The space and the four bytes of one character: two characters in all.
    assert feature["characters"][4:].sum() == 2


def test_training_leaves_out_windows_that_say_too_little() -> None:
    it = task(max_length=12)
    for text in ("", "a", TEXT * 2):
        every = list(it.features(document(text), training=False))
        kept = list(it.features(document(text), training=True))
        long = [one for one in every if len(one["input_ids"]) - 2 >= LEAST_TOKENS]
        assert [one["input_ids"].tolist() for one in kept] == [one["input_ids"].tolist() for one in long]
    # Where no window could have so many, whole ones are kept.
    assert list(task(max_length=8).features(document(TEXT), training=True))


def test_features_have_the_same_names_and_types_always() -> None:
    kinds = {
        tuple((name, str(array.dtype), array.ndim) for name, array in feature.items())
        for text in [*ODD_TEXTS, "a <mask> b"]
        for training in (True, False)
        for feature in task().features(document(text), training=training)
    }
    assert len(kinds) == 1


def test_masks_are_fifteen_percent_eighty_ten_ten_and_never_special() -> None:
    special = [0, 1, 2, 3, 4]
    masker = Masker(mask=4, words=np.arange(5, 400))
    ids = np.concatenate([special, np.random.default_rng(0).integers(5, 400, 995)])
    given, labels = (np.stack(rows) for rows in zip(*(masker(ids, seed) for seed in range(200)), strict=True))
    chosen = labels != NO_LABEL
    assert not chosen[:, :5].any()
    assert (given[:, :5] == special).all()
    assert (given[~chosen] == np.broadcast_to(ids, given.shape)[~chosen]).all()
    assert (labels[chosen] == np.broadcast_to(ids, given.shape)[chosen]).all()
    # 0.15 * 995 = 149.25: one more in a quarter of the cases.
    assert set(chosen.sum(1)) == {149, 150}
    assert chosen.sum(1).mean() == pytest.approx(149.25, abs=0.1)
    is_mask, same = given[chosen] == 4, given[chosen] == labels[chosen]
    # 29,850 draws: four standard deviations.
    assert is_mask.mean() == pytest.approx(MASKED, abs=0.01)
    assert same.mean() == pytest.approx(1 - MASKED - REPLACED, abs=0.008)
    replaced = given[chosen][~is_mask & ~same]
    assert replaced.min() >= 5
    assert len(np.unique(replaced)) > 380
    # Every place is as likely as any other.
    assert chosen[:, 5:].mean(0).std() == pytest.approx(math.sqrt(0.15 * 0.85 / 200), rel=0.1)


def test_masks_are_the_seeds_and_do_not_depend_on_the_batch() -> None:
    it = task()
    features = [next(it.features(document(text), training=True)) for text in (TEXT, TEXT[::-1])]
    both = it.collate(features, [7, 8])
    alone = it.collate(features[:1], [7])
    length = alone["input_ids"].shape[1]
    for name in ("input_ids", "labels", "characters", "is_blank"):
        assert torch.equal(both[name][:1, :length], alone[name])
    again = it.collate(features[::-1], [8, 7])
    assert torch.equal(again["labels"], both["labels"].flip(0))
    assert not torch.equal(it.collate(features[:1], [9])["labels"], alone["labels"])
    assert both["labels"][0, length:].eq(NO_LABEL).all()


def test_one_word_is_masked_and_nothing_in_an_empty_text() -> None:
    it = task()
    for seed in range(5):
        assert (batch_of(it, "a", first_seed=seed)["labels"] != NO_LABEL).sum() == 1
    assert (batch_of(it, "")["labels"] == NO_LABEL).all()


@pytest.mark.parametrize("kind", ["long", "short", "lengthened"])
def test_loss_is_that_of_the_whole_projection(folders: dict[str, Path], kind: str) -> None:
    it = task(mask_share=0.4)
    if kind == "lengthened":
        model = built(it, folders["short"], max_length=100, window=ATTENTION_WINDOW)
    else:
        model = built(it, folders[kind])
    batch = batch_of(it, TEXT, "a b c", "")
    loss = it.loss(model, batch)
    logits, labels = all_logits(model, batch), batch["labels"]
    expected = [
        -logits[row, at].log_softmax(0)[labels[row, at]]
        for row, at in (labels != NO_LABEL).nonzero().tolist()
    ]
    assert loss.targets == len(expected) > 5
    assert float(loss.total.detach()) == pytest.approx(float(torch.stack(expected).detach().sum()), rel=1e-5)
    loss.total.backward()
    assert model.get_input_embeddings().weight.grad.abs().sum() > 0


def test_loss_without_targets_is_zero_and_has_a_gradient(folders: dict[str, Path]) -> None:
    it = task()
    model = built(it, folders["long"])
    loss = it.loss(model, batch_of(it, "", ""))
    assert (float(loss.total.detach()), int(loss.targets)) == (0.0, 0)
    loss.total.backward()
    assert all(p.grad is None or not p.grad.abs().sum() for p in model.parameters())


def test_outputs_are_sums_over_the_masked_tokens_of_each_window(folders: dict[str, Path]) -> None:
    it = task(mask_share=0.3, max_length=20)
    model = built(it, folders["long"])
    batch = batch_of(it, TEXT, "a b c", "")
    found = no_grad_outputs(it, model, batch)
    assert len(found) == len(batch["labels"])
    with torch.no_grad():
        logits = all_logits(model, batch)
    for row, window in enumerate(found):
        places = (batch["labels"][row] != NO_LABEL).nonzero()[:, 0].tolist()
        losses = [float(F.cross_entropy(logits[row, at], batch["labels"][row, at])) for at in places]
        assert window.loss == pytest.approx(sum(losses), rel=1e-5)
        assert window.tokens == len(places)
        assert window.right == sum(int(logits[row, at].argmax()) == batch["labels"][row, at] for at in places)
        assert window.characters == sum(int(batch["characters"][row, at]) for at in places)
        assert window.blanks == []
    loss = it.loss(model, batch)
    assert float(loss.total.detach()) == pytest.approx(sum(window.loss for window in found), rel=1e-5)


@pytest.mark.parametrize("kind", ["long", "short"])
def test_blanks_are_filled_and_nothing_else_is_masked(folders: dict[str, Path], kind: str) -> None:
    it = task(max_length=16)
    model = built(it, folders[kind])
    text = "The <mask> of Peru. " + "It was a good film. " * 4 + "Ada <mask><mask>"
    features = list(it.features(document(text), training=False))
    assert len(features) > 2
    batch = it.collate(features, range(len(features)))
    ids = [i for one in features for i in one["input_ids"].tolist()]
    assert batch["input_ids"][batch["attention_mask"] == 1].tolist() == ids
    assert int(batch["is_blank"].sum()) == 3
    outputs = no_grad_outputs(it, model, batch)
    prediction = it.prediction(document(text), outputs)
    assert {name: prediction[name] for name in ("loss", "tokens", "right", "characters")} == dict.fromkeys(
        ("loss", "tokens", "right", "characters"), 0
    )
    with torch.no_grad():
        probabilities = all_logits(model, batch)[batch["input_ids"] == 4].softmax(-1)
    assert len(prediction["masks"]) == 3
    for said, expected in zip(prediction["masks"], probabilities, strict=True):
        best = expected.argsort(descending=True)[:5].tolist()
        assert [word["token"] for word in said] == [it.tokenizer.decode([i]) for i in best]
        assert [word["probability"] for word in said] == pytest.approx(expected[best].tolist(), rel=1e-4)
    with pytest.raises(ValueError, match="no token of these 1 documents was masked"):
        it.score([document(text)], [prediction])


def test_training_learns_from_a_text_with_masks_in_it() -> None:
    it = task()
    (feature,) = it.features(document(TEXT + "<mask>" + TEXT), training=True)
    batch = it.collate([feature], [0])
    assert not batch["is_blank"].any()
    assert (batch["labels"] != NO_LABEL).any()
    assert not (batch["labels"] == it.tokenizer.mask_token_id).any()


def test_scores_are_of_sums() -> None:
    it = task()
    two = [document("x", "1"), document("y", "2")]
    windows = [
        [WindowScores(math.log(4.0), 2, 1, 3, []), WindowScores(math.log(8.0), 1, 0, 2, [])],
        [WindowScores(math.log(2.0), 1, 1, 1, [])],
    ]
    scores = it.score(two, [it.prediction(one, given) for one, given in zip(two, windows, strict=True)])
    assert scores == pytest.approx(
        {
            "bits_per_character": (2 + 3 + 1) / (3 + 2 + 1),
            "bits_per_token": 6 / 4,
            "perplexity": 2**1.5,
            "accuracy": 0.5,
        }
    )


def test_uniform_model_has_the_bits_of_its_vocabulary(folders: dict[str, Path]) -> None:
    it = task()
    model = built(it, folders["long"])
    with torch.no_grad():
        model.get_input_embeddings().weight.zero_()
    batch = batch_of(it, TEXT * 5)
    scores = it.score(
        [document(TEXT * 5)], [it.prediction(document(TEXT * 5), no_grad_outputs(it, model, batch))]
    )
    assert scores["bits_per_token"] == pytest.approx(math.log2(len(it.tokenizer)), rel=1e-5)


LEARNED = ["The river Inn flows to the Danube.", "Paris is the capital of France."]


@pytest.mark.parametrize("kind", ["long", "short", "lengthened"])
def test_it_learns_its_texts_by_heart(tmp_path: Path, kind: str) -> None:
    it = task(max_length=40, mask_share=0.3)
    make = tiny_longformer if kind == "long" else tiny_roberta
    lengthening = {"max_length": 80, "window": ATTENTION_WINDOW} if kind == "lengthened" else {}
    model = built(it, make(tmp_path, initializer_range=0.1), **lengthening)
    before = evaluated(it, model)
    steps, rate = 120, 1e-2
    features = [one for text in LEARNED * 2 for one in it.features(document(text), training=True)]
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    model.train()
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min(1, (step + 1) / 10, 2 * (steps - step) / steps)
        loss = it.loss(model, it.collate(features, [1000 * step + at for at in range(len(features))]))
        optimizer.zero_grad()
        (loss.total / loss.targets).backward()
        optimizer.step()
    model.eval()
    after = evaluated(it, model)
    assert after["accuracy"] > 0.98 > before["accuracy"]
    assert after["bits_per_character"] < 0.2 < before["bits_per_character"]
    blank = document(LEARNED[1].replace(" of", "<mask>"))
    assert it.tokenizer.tokenize(" of") == ["Ġof"]
    (said,) = it.prediction(blank, no_grad_outputs(it, model, batch_of(it, blank.text)))["masks"]
    assert said[0]["token"] == " of"
    assert said[0]["probability"] > 0.7


def evaluated(of: MaskedLM, model: nn.Module) -> dict[str, float]:
    predictions: list[dict[str, Any]] = []
    documents = [document(text, str(at)) for at, text in enumerate(LEARNED * 15)]
    for at, one in enumerate(documents):
        features = list(of.features(one, training=False))
        outputs = no_grad_outputs(of, model, of.collate(features, [10**9 + at] * len(features)))
        predictions.append(of.prediction(one, outputs))
    return of.score(documents, predictions)


@pytest.mark.parametrize("kind", ["long", "short", "lengthened"])
def test_saved_and_loaded_it_says_the_same(folders: dict[str, Path], kind: str, tmp_path: Path) -> None:
    it = task()
    if kind == "lengthened":
        model = built(it, folders["short"], max_length=80, window=ATTENTION_WINDOW)
    else:
        model = built(it, folders[kind])
    it.save(model, tmp_path)
    again = cast(Any, it.load(tmp_path)).eval()
    assert type(again) is type(model)
    assert again.get_output_embeddings().weight is again.get_input_embeddings().weight
    batch = batch_of(it, TEXT, "The <mask> of Peru")
    assert no_grad_outputs(it, again, batch) == no_grad_outputs(it, model, batch)


def global_and_local(model: Any) -> Iterator[tuple[Tensor, Tensor]]:
    for layer in model.longformer.encoder.layer:
        attention = layer.attention.self
        for name in ("query", "key", "value"):
            for kind in ("weight", "bias"):
                yield (
                    getattr(getattr(attention, f"{name}_global"), kind),
                    getattr(getattr(attention, name), kind),
                )


@pytest.mark.parametrize("copied", [True, False])
def test_global_projections_are_saved_as_copies(
    folders: dict[str, Path], tmp_path: Path, copied: bool
) -> None:
    it = task(copy_global_projections=copied)
    model = built(it, folders["short"], max_length=80, window=ATTENTION_WINDOW)
    assert all(not own.requires_grad and local.requires_grad for own, local in global_and_local(model))
    trained = [p for p in model.parameters() if p.requires_grad]
    (it.loss(model, batch_of(it, TEXT))).total.backward()
    assert all(p.grad is not None for p in trained)
    torch.optim.AdamW(trained, lr=1e-2).step()
    assert not any(torch.equal(own, local) for own, local in global_and_local(model) if own.dim() == 2)
    it.save(model, tmp_path)
    again = it.load(tmp_path)
    assert all(torch.equal(own, local) == copied for own, local in global_and_local(again) if own.dim() == 2)


def test_both_ends_may_be_global(folders: dict[str, Path], tmp_path: Path) -> None:
    it = task(global_tokens=True)
    model = built(it, folders["short"], max_length=80, window=ATTENTION_WINDOW)
    batch = batch_of(it, TEXT)
    for ids, mask, is_global in zip(
        batch["input_ids"], batch["attention_mask"].bool(), batch["is_global"], strict=True
    ):
        ends = (ids == it.tokenizer.cls_token_id) | (ids == it.tokenizer.sep_token_id)
        assert torch.equal(is_global, ends & mask)
    it.loss(model, batch).total.backward()
    assert all(own.grad is not None for own, _ in global_and_local(model))
    torch.optim.AdamW(model.parameters(), lr=1e-2).step()
    it.save(model, tmp_path)
    assert not any(torch.equal(*pair) for pair in global_and_local(it.load(tmp_path)) if pair[0].dim() == 2)


def test_shared_global_projections_are_trained(folders: dict[str, Path], tmp_path: Path) -> None:
    it = task()
    model = built(it, folders["long"], separate_global_projections=False)
    assert all(own is local and own.requires_grad for own, local in global_and_local(model))
    it.save(model, tmp_path)
    assert all(torch.equal(own, local) for own, local in global_and_local(it.load(tmp_path)))


def without_head(kind: str, folder: Path) -> Path:
    sizes: dict[str, Any] = {
        "vocab_size": len(tiny_tokenizer()),
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 66,
        "pad_token_id": 1,
    }
    if kind == "longformer":
        model: Any = longspan.LongformerModel(longspan.LongformerConfig(**sizes, attention_window=16))
    elif kind == "bert":
        model = hf.BertModel(hf.BertConfig(**sizes))
    else:
        model = hf.RobertaModel(hf.RobertaConfig(**sizes))
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    "kind",
    [
        "roberta",
        "bert",
        "longformer",
    ],
)
@pytest.mark.parametrize("max_length", [None, 80])
def test_new_head_is_tied_to_the_embeddings_and_sane(
    kind: str, max_length: int | None, tmp_path: Path
) -> None:
    # Fills memory that nothing initialised with NaN.
    torch.use_deterministic_algorithms(True)
    try:
        it = task()
        model = built(it, without_head(kind, tmp_path / "source"), max_length=max_length, window=16)
    finally:
        torch.use_deterministic_algorithms(False)
    head = model.cls.predictions if hasattr(model, "cls") else model.lm_head
    transform = head.transform if hasattr(model, "cls") else head
    norm = transform.LayerNorm if hasattr(model, "cls") else head.layer_norm
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert torch.equal(model.get_output_embeddings().bias, torch.zeros(len(it.tokenizer)))
    assert not transform.dense.bias.any() and not norm.bias.any() and norm.weight.eq(1).all()
    assert float(transform.dense.weight.detach().std()) == pytest.approx(0.02, rel=0.2)
    batch = batch_of(it, TEXT)
    loss = it.loss(model, batch)
    # A new head says next to nothing yet.
    assert float(loss.total.detach() / loss.targets) == pytest.approx(math.log(len(it.tokenizer)), rel=0.1)
    it.save(model, tmp_path)
    again = cast(Any, it.load(tmp_path)).eval()
    assert again.get_output_embeddings().weight is again.get_input_embeddings().weight
    assert no_grad_outputs(it, again, batch) == no_grad_outputs(it, model, batch)


def test_bert_tokens_and_head() -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ada", "found", "the", "##m", "."]
    tokenizer = Tokenizer(models.WordPiece({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast = hf.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    it = MaskedLM(MaskedLMSettings(mask_share=1.0), fast)
    (feature,) = it.features(document("ada  found them zzz. "), training=False)
    assert feature["input_ids"].tolist() == [2, 5, 6, 7, 8, 1, 9, 3]
    assert feature["characters"].tolist() == [0, 3, 7, 4, 1, 4, 2, 0]
    labels = it.collate([feature], [0])["labels"].tolist()
    # A word that the vocabulary lacks is not masked: it would spell four characters for next to nothing.
    assert labels == [[NO_LABEL, 5, 6, 7, 8, NO_LABEL, 9, NO_LABEL]]


@pytest.mark.parametrize("settings", [{"mask_share": 0.0}, {"mask_share": 1.1}, {"max_length": 7}])
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any]) -> None:
    (name,) = settings
    with pytest.raises(ValueError, match=f"settings.{name} is"):
        MaskedLMSettings(**settings)


def test_tokenizer_without_mask_and_model_without_its_head_are_refused(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.mask_token = None
    with pytest.raises(ValueError, match="no mask_token"):
        MaskedLM(MaskedLMSettings(), tokenizer)
    sizes: dict[str, Any] = {"vocab_size": 60, "dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16}
    hf.DistilBertForMaskedLM(hf.DistilBertConfig(**sizes)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="DistilBertForMaskedLM, which has no head called lm_head or cls"):
        task().build(ModelSettings(source=str(tmp_path)))


def test_it_is_a_task_of_texts() -> None:
    names: Sequence[str] = MaskedLM.formats
    assert (MaskedLM.name, names[0], MaskedLM.higher_is_better) == ("masked-lm", "text", False)
    assert MaskedLM.best_score in task().score(
        [document("a")], [{"loss": 1.0, "tokens": 1, "right": 0, "characters": 1}]
    )
