"""The next byte: every one is learned and scored once, and sliding and streaming agree."""

import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from longspan.data.byte_texts import read_bytes
from longspan.data.examples import ByteDocument
from longspan.models.byte_tokenizer import byte_tokenizer
from longspan.tasks.causal_lm import CausalLM, CausalLMSettings, labels
from longspan.tasks.causal_models import CausalModel
from longspan.tasks.models import ModelSettings
from longspan.training.evaluation import predict
from longspan.training.feature_store import FeatureStore, write_features
from longspan.training.processes import Processes
from longspan.training.task_module import TaskModule
from tests.tasks.tiny import learn, predictions, tiny_causal_lm, tiny_longformer, tiny_tokenizer

TEXT = "Größe und Länge, 3 €, \U0001f600: the sea, the sea, the long grey sea. " * 8


def document(length: int = 300) -> ByteDocument:
    return ByteDocument(id="a", content=TEXT.encode()[:length])


def task(**settings: Any) -> CausalLM:
    settings.setdefault("max_length", 32)
    return CausalLM(CausalLMSettings(**settings), byte_tokenizer())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CausalModel:
    folder = tiny_causal_lm(tmp_path_factory.mktemp("model"), initializer_range=0.2)
    return task().build(ModelSettings(source=str(folder)))


def sums(task: CausalLM, model: CausalModel, length: int = 300) -> dict[str, float]:
    """The prediction of a document, without its id."""
    said = predictions(task, model, [document(length)])[0]
    return {name: value for name, value in said.items() if name != "id"}


def said(task: CausalLM, *, training: bool, length: int = 300) -> list[int]:
    """Every label of a document's features, in order."""
    batches = [task.collate([one], [0]) for one in task.features(document(length), training=training)]
    rows = [labels(batch)[0] for batch in batches]
    assert [int((row != -100).sum()) for row in rows] == [int(batch["counts"][0, 0]) for batch in batches]
    return [int(label) for row in rows for label in row if label != -100]


@pytest.mark.parametrize("length", [2, 32, 33, 64, 300])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"evaluation": "sliding", "evaluation_length": 50, "evaluation_step": 7},
        {"evaluation": "sliding", "evaluation_length": 7, "evaluation_step": 7},
    ],
    ids=str,
)
def test_every_byte_but_the_first_is_scored_once(settings: dict[str, Any], length: int) -> None:
    assert said(task(**settings), training=False, length=length) == list(document(length).content[1:])


def test_every_byte_but_the_first_is_learned_once() -> None:
    # 300 = 9 * 32 + 12: the rest is long enough to be learned from.
    assert said(task(), training=True) == list(document().content[1:])
    lengths = [len(one["input_ids"]) for one in task().features(document(), training=True)]
    assert lengths == [32] * 9 + [12]
    # 4 bytes are not; the last of them that is learned is the one after the window before.
    assert said(task(), training=True, length=36) == list(document().content[1:33])


def test_features_are_bytes() -> None:
    feature = next(task().features(document(), training=True))
    assert feature["input_ids"].dtype == feature["after"].dtype == np.uint8
    batch = task().collate([feature], [0])
    assert batch["input_ids"].dtype == torch.uint8


@pytest.mark.parametrize("kind", ["relative", "rotary"])
def test_sliding_and_streaming_agree_where_windows_cover_the_field(kind: str, tmp_path: Path) -> None:
    folder = tiny_causal_lm(tmp_path, initializer_range=0.2, position_kind=kind)
    streaming = task()
    model = streaming.build(ModelSettings(source=str(folder)))
    field = model.config.receptive_field
    assert field == 4 + 12
    expected = sums(streaming, model)
    covered = task(evaluation="sliding", evaluation_length=field + 8, evaluation_step=8)
    assert sums(covered, model) == pytest.approx(expected, rel=1e-6)
    short = task(evaluation="sliding", evaluation_length=10, evaluation_step=8)
    assert sums(short, model)["loss"] != pytest.approx(expected["loss"], rel=1e-4)


def test_streaming_in_pieces_is_the_whole(model: CausalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.no_grad():
        ids = torch.tensor([list(document().content)])
        expected = float(model(ids, labels=ids).loss) * 299
    assert sums(task(), model)["loss"] == pytest.approx(expected, rel=1e-6)
    monkeypatch.setattr("longspan.models.causal_lm_cache._LEAST_PIECE", 16)
    assert sums(task(), model)["loss"] == pytest.approx(expected, rel=1e-6)


def test_documents_of_different_lengths_share_a_batch(model: CausalModel) -> None:
    one = task()
    documents = [document(300), document(40), document(1), document(2)]
    features = [next(one.features(each, training=False)) for each in documents]
    with torch.no_grad():
        together = one.outputs(model.eval(), one.collate(features, [0] * 4))
    alone = [predictions(one, model, [each])[0] for each in documents]
    assert [each.loss for each in together] == pytest.approx([each["loss"] for each in alone], rel=1e-5)
    assert [each.tokens for each in together] == [299, 39, 0, 1]


def test_limit_scores_the_beginning(model: CausalModel) -> None:
    limited = sums(task(evaluation_limit=40), model)
    assert limited == pytest.approx(sums(task(), model, length=40), rel=1e-6)


def test_learns(tmp_path: Path) -> None:
    one = task()
    model = one.build(ModelSettings(source=str(tiny_causal_lm(tmp_path))))
    before = one.score([document()], predictions(one, model, [document()]))
    assert before["bits_per_byte"] == pytest.approx(8, abs=0.3)
    learn(one, model, [document()], steps=60, learning_rate=1e-2)
    after = one.score([document()], predictions(one, model, [document()]))
    assert after["bits_per_byte"] < 2
    # Of 299 bytes, some belong to a character with the one before.
    spelled = len(bytes(document().content).decode(errors="replace")[1:])
    assert after["bits_per_character"] == pytest.approx(after["bits_per_byte"] * 299 / spelled)
    assert after["perplexity"] == pytest.approx(2 ** after["bits_per_token"])


def test_any_tokenizer_will_do(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tiny_causal_lm(tmp_path, vocab_size=len(tokenizer))
    tokenizer.save_pretrained(tmp_path)
    loaded = CausalLM.load_tokenizer(str(tmp_path))
    assert loaded is not None and len(loaded) == len(tokenizer)
    one = CausalLM(CausalLMSettings(max_length=16), loaded)
    assert not one.reads_bytes
    model = one.build(ModelSettings(source=str(tmp_path)))
    text = ByteDocument(id="a", content=TEXT.strip().encode())
    found = predictions(one, model, [text])[0]
    ids = tokenizer(TEXT.strip(), add_special_tokens=False)["input_ids"]
    assert found["tokens"] == len(ids) - 1
    first = str(tokenizer.decode(ids[:1]))
    assert found["characters"] == len(TEXT.strip()) - len(first)
    assert found["bytes"] == len(TEXT.strip().encode()) - len(first.encode())
    assert len(list(one.features(text, training=True))) == len(ids) // 16 + (len(ids) % 16 >= 8)
    with pytest.raises(ValueError, match="it must be UTF-8"):
        list(one.features(ByteDocument(id="b", content=b"\xff"), training=True))


def test_models_come_from_names_configurations_and_folders(tmp_path: Path) -> None:
    tiny_causal_lm(tmp_path)
    new = task().build(ModelSettings(source=str(tmp_path / "config.json"), dropout=0.3))
    assert new.config.hidden_dropout_prob == new.config.attention_probs_dropout_prob == 0.3
    assert new.config.attention_window == [4, 6]
    assert task().build(ModelSettings(source="char-lm-mini")).config.hidden_size == 256
    assert len(CausalLM.load_tokenizer("char-lm-mini") or ()) == 256
    wrong: list[tuple[ModelSettings, str]] = [
        (
            ModelSettings(source="char-lm-mini", max_length=512),
            "max_length is 512; .* any length",
        ),
        (ModelSettings(source="char-lm-mini", window=128), "model.window is 128; .* phases.windows"),
        (ModelSettings(source="char-lm-mini", positions="random"), "model.positions is 'random'"),
        (ModelSettings(source=str(tmp_path / "none.json")), "none.json"),
        (ModelSettings(source=str(tiny_longformer(tmp_path / "long"))), "longspan_longformer|'longformer'"),
        (ModelSettings(source=str(tiny_causal_lm(tmp_path / "few", vocab_size=27))), "vocab_size is 27"),
    ]
    for settings, message in wrong:
        with pytest.raises(ValueError, match=message):
            task().build(settings)


def test_windows_widen(model: CausalModel) -> None:
    task().widen(model, (4, 9))
    assert model.config.attention_window == [4, 9]
    task().widen(model, (4, 6))
    with pytest.raises(ValueError, match="attention_window has 3 items"):
        task().widen(model, (4, 5, 6))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"evaluation_step": 0}, "evaluation_step is 0"),
        ({"evaluation_step": 9, "evaluation_length": 8}, "evaluation_step is 9"),
        ({"evaluation_limit": 1}, "evaluation_limit is 1"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CausalLMSettings(**settings)


def test_nothing_to_score_is_an_error(model: CausalModel) -> None:
    empty = ByteDocument(id="a", content=b"x")
    with pytest.raises(ValueError, match="nothing to score"):
        task().score([empty], predictions(task(), model, [empty]))


def test_labels_of_pieces_are_those_of_the_whole() -> None:
    """Rows of different lengths, with and without a token after them, and some not to be scored."""
    rows = [
        *task().features(document(40), training=True),
        *task(evaluation="sliding", evaluation_length=20, evaluation_step=7).features(
            document(50), training=False
        ),
    ]
    batch = task().collate(rows, [0] * len(rows))
    whole = labels(batch)
    assert whole.shape == batch["input_ids"].shape
    for size in (1, 5, 19, 32, 100):
        pieces = [labels(batch, begin, begin + size) for begin in range(0, whole.shape[1], size)]
        assert torch.equal(torch.cat(pieces, 1), whole)
    for row, feature in zip(whole.tolist(), rows, strict=True):
        following = [*feature["input_ids"][1:].tolist(), *feature["after"].tolist()]
        unscored = int(feature["unscored"][0])
        right = [-100] * unscored + following[unscored:]
        assert row == right + [-100] * (whole.shape[1] - len(right))


class _PeakOfOwnMemory:
    """The most anonymous memory of this process while it is open, in bytes: what is mapped does not count."""

    def __enter__(self) -> "_PeakOfOwnMemory":
        self.peak, self._done = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            self.peak = max(self.peak, own_memory())


def own_memory() -> int:
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("RssAnon")]
    return 1024 * int(line.split()[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for the memory")
def test_memory_does_not_grow_with_the_document(tmp_path: Path) -> None:
    """Eight megabytes are read in fewer."""
    tiny = task(evaluation="streaming")
    shape: dict[str, Any] = {"num_hidden_layers": 1, "hidden_size": 4, "num_attention_heads": 1}
    shape["attention_dilation"] = 1
    folder = tiny_causal_lm(tmp_path / "model", **shape, intermediate_size=4, attention_window=1)
    module = TaskModule(tiny, tiny.build(ModelSettings(source=str(folder)))).eval()
    processes = Processes()

    def peak(size: int) -> int:
        path = tmp_path / f"{size}.txt"
        path.write_bytes(b"the sea, the long grey sea. " * (size // 28))
        before = own_memory()
        with _PeakOfOwnMemory() as watched:
            examples = list(read_bytes(path))
            write_features(
                tmp_path / f"{size}", ((0, one) for one in tiny.features(examples[0], training=False))
            )
            said = predict(
                tiny,
                module,
                examples,
                FeatureStore(tmp_path / f"{size}"),
                processes=processes,
                tokens=8192,
                precision=nullcontext,
            )
        assert said[0]["bytes"] == len(examples[0].content) - 1
        return watched.peak - before

    peak(1 << 19)  # what is loaded once, and buffers that stay
    # Torch's allocator takes up to 12 MB now and then, for a document of any size.
    assert any(peak(1 << 23) < 6 << 20 for _ in range(5))
