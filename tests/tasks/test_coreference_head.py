"""The head for coreference against slow, obvious computations."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from longspan.tasks.coreference_documents import NO_ONE
from longspan.tasks.coreference_head import (
    DISTANCES,
    CoreferenceHead,
    HeadShape,
    best_antecedents,
    distance_bucket,
    linked_clusters,
    marginal_loss,
)
from longspan.tasks.coreference_spans import best_spans, without_crossing_sentences

SIZE = 6
SHAPE = HeadShape(
    max_span_width=3,
    cross_sentences=False,
    spans_per_word=0.8,
    antecedents=3,
    refinements=1,
    ffnn_size=8,
    similarity_size=5,
    feature_size=4,
    dropout=0.0,
)
FIRST = torch.tensor([1, 2, 4, 8, 9, 10, 13, 14, 17])
LAST = torch.tensor([1, 3, 7, 8, 9, 12, 13, 16, 17])
SENTENCE = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2])
SPEAKER = torch.tensor([0, 0, 0, 0, 1, 1, 1, NO_ONE, NO_ONE])


def head_of(seed: int = 0, **changes: object) -> CoreferenceHead:
    """Larger weights than usual, so that scores differ."""
    shape = HeadShape(**{**{name: getattr(SHAPE, name) for name in SHAPE.__slots__}, **changes})  # type: ignore[arg-type]
    torch.manual_seed(seed)
    head = CoreferenceHead(SIZE, shape)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_(std=0.6)
    return head


def states(seed: int = 1) -> Tensor:
    return torch.randn(19, SIZE, generator=torch.Generator().manual_seed(seed))


def slow_embedding(head: CoreferenceHead, hidden: Tensor, start: int, end: int) -> Tensor:
    """Attention over the tokens of the span, as the paper writes it."""
    inside = [
        t for w in range(start, end) for t in range(int(FIRST[w]), int(LAST[w]) + 1)
    ]  # special tokens may stand between words
    weights = head.embedder.attention(hidden[inside]).squeeze(1).softmax(0)
    return torch.cat(
        [
            hidden[FIRST[start]],
            hidden[LAST[end - 1]],
            (weights[:, None] * hidden[inside]).sum(0),
            head.embedder.widths.weight[end - start - 1],
        ]
    )


def slow_pair_score(
    head: CoreferenceHead, spans: Tensor, i: int, j: int, speakers: tuple[int, int]
) -> Tensor:
    """The network's score of one pair, its inner layer a sum over what it sees."""
    fine = head.fine
    unknown = NO_ONE in speakers
    same = 0 if unknown else 1 if speakers[0] == speakers[1] else 2
    product = fine.projection(spans[i]) * fine.projection(spans[j])
    inner = (
        fine.of_span(spans[i])
        + fine.of_antecedent(spans[j])
        + fine.of_product(product)
        + fine.of_distance(fine.distance.weight[slow_bucket(i - j)])
        + fine.of_speaker(fine.speaker.weight[same])
    )
    return fine.outer(inner.relu())[0]


def slow_bucket(distance: int) -> int:
    return max(at for at, begin in enumerate(DISTANCES) if distance >= begin)


def test_spans_are_embedded_with_attention_over_tokens() -> None:
    head, hidden = head_of(), states()
    words = head.embedder.words(hidden, FIRST, LAST)
    spans = [(0, 1), (1, 3), (2, 5), (7, 9), (8, 9)]
    starts, ends = torch.tensor(spans).T
    found = head.embedder(words, starts, ends)
    expected = torch.stack([slow_embedding(head, hidden, *span) for span in spans])
    torch.testing.assert_close(found, expected)


def test_attention_survives_large_logits() -> None:
    head, hidden = head_of(), states() * 200
    words = head.embedder.words(hidden, FIRST, LAST)
    found = head.embedder(words, torch.tensor([0]), torch.tensor([3]))
    torch.testing.assert_close(found[0], slow_embedding(head, hidden, 0, 3))
    scores = head.mention.of_all(words, head.embedder.widths.weight)
    torch.testing.assert_close(scores[2, :1], head.mention(found), rtol=1e-4, atol=1e-3)


def test_scores_of_all_spans_are_those_of_each() -> None:
    head, hidden = head_of(), states()
    words = head.embedder.words(hidden, FIRST, LAST)
    scores = head.mention.of_all(words, head.embedder.widths.weight)
    assert scores.shape == (3, 9)
    for width, start in itertools.product(range(3), range(9)):
        if start + width >= 9:
            assert scores[width, start] == -torch.inf
        else:
            expected = head.mention(slow_embedding(head, hidden, start, start + width + 1)[None])[0]
            torch.testing.assert_close(scores[width, start], expected)


def test_sentences_are_not_crossed() -> None:
    scores = without_crossing_sentences(torch.zeros(3, 9), SENTENCE)
    for width, start in itertools.product(range(3), range(9)):
        end = start + width
        if end < 9:  # the others were -inf before
            assert (scores[width, start] == 0) == (SENTENCE[start] == SENTENCE[end])


def crosses(one: tuple[int, int], other: tuple[int, int]) -> bool:
    shared = set(range(*one)) & set(range(*other))
    return bool(shared) and shared != set(range(*one)) and shared != set(range(*other))


@pytest.mark.parametrize("seed", range(5))
def test_best_spans_do_not_cross(seed: int) -> None:
    scores = torch.randn(4, 12, generator=torch.Generator().manual_seed(seed))
    for width in range(4):
        scores[width, 12 - width :] = -torch.inf
    spans = {
        (start, start + width + 1): float(scores[width, start])
        for width in range(4)
        for start in range(12 - width)
    }
    kept: list[tuple[int, int]] = []
    for span in sorted(spans, key=spans.__getitem__, reverse=True):
        if len(kept) < 9 and not any(crosses(span, other) for other in kept):
            kept.append(span)
    starts, ends = best_spans(scores, 9)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == sorted(kept)


def test_fewer_spans_than_wanted() -> None:
    starts, ends = best_spans(torch.tensor([[0.5, 0.1], [-torch.inf, -torch.inf]]), 9)
    assert starts.tolist() == [0, 1]
    assert ends.tolist() == [1, 2]


def test_distance_buckets() -> None:
    distances = torch.tensor([1, 2, 4, 5, 7, 8, 15, 63, 64, 511, 512, 9999])
    assert distance_bucket(distances).tolist() == [slow_bucket(int(one)) for one in distances]
    assert distance_bucket(torch.tensor([-3, 0])).tolist() == [0, 0]


@pytest.mark.parametrize("refinements", [0, 1, 2])
def test_links_against_slow_computation(refinements: int) -> None:
    head, hidden = head_of(refinements=refinements), states()
    found = head(hidden, FIRST, LAST, SENTENCE, SPEAKER)
    spans = [
        slow_embedding(head, hidden, *span)
        for span in zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    ]
    count = len(spans)
    assert count == 7  # 0.8 of 9 words
    mention = [head.mention(span[None])[0] for span in spans]
    torch.testing.assert_close(found.mention, torch.stack(mention))
    coarse = {
        (i, j): head.coarse.source(spans[i]) @ head.coarse.target(spans[j]) / 5**0.5
        + mention[i]
        + mention[j]
        + head.coarse.distance.weight[slow_bucket(i - j), 0]
        for i in range(count)
        for j in range(i)
    }
    chosen = {i: sorted(range(i), key=lambda j, i=i: -float(coarse[i, j].detach()))[:3] for i in range(count)}
    now = torch.stack(spans)
    links: dict[int, dict[int, Tensor]] = {}
    for at in range(refinements + 1):
        for i in range(count):
            said = int(SPEAKER[found.starts[i]])
            links[i] = {-1: torch.tensor(0.0)}
            for j in chosen[i]:
                speakers = (said, int(SPEAKER[found.starts[j]]))
                links[i][j] = coarse[i, j] + slow_pair_score(head, now, i, j, speakers)
        if at < refinements:
            assert head.gate is not None
            refined: list[Tensor] = []
            for i in range(count):
                weights = torch.stack(list(links[i].values())).softmax(0)
                means = [now[i] if j < 0 else now[j] for j in links[i]]
                expected = (weights[:, None] * torch.stack(means)).sum(0)
                gate = head.gate(torch.cat([now[i], expected])).sigmoid()
                refined.append(gate * now[i] + (1 - gate) * expected)
            now = torch.stack(refined)
    for i in range(count):
        row = dict(zip([-1, *found.antecedents[i].tolist()], found.links[i], strict=True))
        finite = {j: score for j, score in row.items() if score > -torch.inf}
        assert set(finite) == set(links[i])
        for j, score in finite.items():
            torch.testing.assert_close(score, links[i][j], rtol=1e-4, atol=1e-4)
    assert all(j < i for i in range(count) for j in links[i])


def test_marginal_loss_against_all_assignments() -> None:
    torch.manual_seed(0)
    antecedents = torch.tensor([[0, 1], [0, 2], [1, 0], [2, 0], [3, 1]])
    links = torch.cat([torch.zeros(5, 1), torch.randn(5, 2)], dim=1)
    links[:, 1:].masked_fill_(antecedents >= torch.arange(5)[:, None], -torch.inf)
    clusters = torch.tensor([4, -1, 4, 4, -1])
    total = right = 0.0
    for choice in itertools.product(range(3), repeat=5):
        weight = math.exp(sum(float(links[i, c]) for i, c in enumerate(choice)))
        total += weight
        is_right = True
        for i, c in enumerate(choice):
            same = [
                k
                for k in (1, 2)
                if links[i, k] > -torch.inf and clusters[antecedents[i, k - 1]] == clusters[i]
            ]
            good = same if clusters[i] >= 0 and same else [0]
            is_right &= c in good
        right += weight * is_right
    loss = marginal_loss(links, antecedents, clusters)
    assert float(loss) == pytest.approx(-math.log(right / total), rel=1e-5)


def test_two_spans_without_a_cluster_are_not_of_one() -> None:
    links, antecedents = torch.tensor([[0.0, -torch.inf], [0.0, 50.0]]), torch.tensor([[1], [0]])
    assert float(marginal_loss(links, antecedents, torch.tensor([-1, -1]))) == pytest.approx(50.0)
    assert float(marginal_loss(links, antecedents, torch.tensor([2, 2]))) == pytest.approx(0.0)


def test_best_antecedent_needs_a_score_over_0() -> None:
    links = torch.tensor([[0, -torch.inf, -torch.inf], [0, -0.1, -torch.inf], [0, 0.2, 0.3], [0, 0.0, -1]])
    antecedents = torch.tensor([[1, 2], [0, 2], [0, 1], [2, 1]])
    assert best_antecedents(links, antecedents) == [-1, -1, 1, -1]


def test_links_make_clusters() -> None:
    assert linked_clusters([-1, -1, 0, 1, 2, -1, 4]) == [[0, 2, 4, 6], [1, 3], [5]]
    assert linked_clusters([]) == []


@pytest.mark.parametrize("words", [0, 1, 2])
def test_short_documents(words: int) -> None:
    head = head_of()
    found = head(states(), FIRST[:words], LAST[:words], SENTENCE[:words], SPEAKER[:words])
    assert len(found.starts) == min(words, 1)
    assert found.links.shape == (len(found.starts), 1)
    assert best_antecedents(found.links, found.antecedents) == [-1] * len(found.starts)
    if words:
        loss = marginal_loss(found.links, found.antecedents, torch.tensor([-1]))
        loss.backward()  # a graph, though nothing is learned
        assert float(loss.detach()) == 0


def test_gradients_reach_everything_that_is_learned() -> None:
    head = head_of(cross_sentences=True)
    hidden = states().requires_grad_()
    found = head(hidden, FIRST, LAST, SENTENCE, SPEAKER)
    clusters = torch.arange(len(found.starts)) % 2
    marginal_loss(found.links, found.antecedents, clusters).backward()
    assert hidden.grad is not None and hidden.grad.isfinite().all()
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        # A softmax does not see what all its logits share.
        assert name == "embedder.attention.bias" or parameter.grad.abs().sum() > 0, name


def test_autocast_does_not_change_the_head() -> None:
    head, hidden = head_of(), states()
    plain = head(hidden, FIRST, LAST, SENTENCE, SPEAKER)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = head(hidden, FIRST, LAST, SENTENCE, SPEAKER)
    assert torch.equal(plain.links, cast.links)
