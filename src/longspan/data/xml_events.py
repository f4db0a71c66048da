"""XML as it comes, by expat: names without their namespaces, and no entities of the file's own.

An entity may stand for a thousand others: a file that declares one is refused. Nothing is fetched, and
nesting may be of any depth.
"""

from collections.abc import Callable, Mapping
from xml.parsers import expat


def read_xml(
    content: bytes,
    where: str,
    *,
    start: Callable[[str, Mapping[str, str]], None],
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
) -> None:
    """Calls back for every element and every piece of text.

    Args:
        content: an XML file.
        where: what errors call it.
        start: gets the name of an element and its attributes, both without namespaces.
        end: gets the name of an element that ends.
        text: gets a piece of text.

    Raises:
        ValueError: it is no XML, is cut short, or declares entities.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True

    def refuse(name: str, *_: object) -> None:
        raise ValueError(f"{where} declares the entity {name!r}; documents must not declare any")

    def begin(name: str, attributes: dict[str, str]) -> None:
        start(_local(name), {_local(key): value for key, value in attributes.items()})

    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = begin
    if end is not None:
        parser.EndElementHandler = lambda name: end(_local(name))
    if text is not None:
        parser.CharacterDataHandler = text
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ValueError(f"{where} is damaged: {error}; it must be whole") from error
    except LookupError as error:
        raise ValueError(f"{where} is in an encoding that nobody knows: {error}") from error


def _local(name: str) -> str:
    return name.rpartition(" ")[2]
