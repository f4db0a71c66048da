"""Questions over several paragraphs, for the tests of that task."""

from collections.abc import Sequence
from typing import Any

from longspan.data.examples import MultiHopQuestion, Paragraph, SupportingFact
from longspan.tasks.multihop_qa import MultiHopQA, MultiHopSettings
from tests.tasks.tiny import LONG_LENGTH, tiny_tokenizer

RIVERS = MultiHopQuestion(
    id="rivers",
    question="Where is the city?",
    paragraphs=(
        Paragraph(title="Lima", sentences=("Lima is in Peru.", " It is not Passau.")),
        Paragraph(title="Passau", sentences=("Passau lies at the Inn.", " Here it meets the Danube.")),
        Paragraph(title="Inn", sentences=("The Inn flows from Switzerland.",)),
    ),
    supporting_facts=(SupportingFact(1, 0), SupportingFact(2, 0)),
    answer="Inn",
    type="bridge",
)
FILMS = MultiHopQuestion(
    id="films",
    question="Was it a good film?",
    paragraphs=(
        Paragraph(title="Film", sentences=("It was a good film.", " Nobody read it.")),
        Paragraph(title="Book", sentences=("The worst book.", " It was long.", " He saw a dog.")),
        Paragraph(title="Car", sentences=("Her long green car.",)),
    ),
    supporting_facts=(SupportingFact(0, 0), SupportingFact(1, 1)),
    answer="yes",
    type="comparison",
)
DOGS = MultiHopQuestion(
    id="dogs",
    question="Did the dog see Vienna?",
    paragraphs=(
        Paragraph(title="Dog", sentences=("The dog barked.", " Yes, she said.")),
        Paragraph(title="House", sentences=("Her house, her garden.",)),
        Paragraph(title="Vienna", sentences=("Vienna of Austria.", " It is a city.")),
    ),
    supporting_facts=(SupportingFact(0, 0), SupportingFact(2, 0)),
    answer="no",
    type="comparison",
)
EXAMPLES = (RIVERS, FILMS, DOGS)


def task(**changes: Any) -> MultiHopQA:
    changes.setdefault("max_length", LONG_LENGTH)
    return MultiHopQA(MultiHopSettings(**changes), tiny_tokenizer())


def question(
    *paragraphs: tuple[str, list[str]],
    facts: Sequence[tuple[int, int]] = (),
    answer: str | None = None,
    text: str = "Who?",
) -> MultiHopQuestion:
    return MultiHopQuestion(
        id="q",
        question=text,
        paragraphs=tuple(Paragraph(title=title, sentences=tuple(each)) for title, each in paragraphs),
        supporting_facts=tuple(SupportingFact(*fact) for fact in facts),
        answer=answer,
        type=None,
    )
