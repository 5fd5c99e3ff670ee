"""A list of a column's items that rejects changes, because they would not reach the column."""

from __future__ import annotations

from typing import Any, Never, final

from episodia.errors import EpisodeError


@final
class ItemsCopy(list[Any]):
    """The items of a column in a list of their own; `list(...)` of it, slices and sums are plain lists.

    >>> items = ItemsCopy([1, 2])
    >>> items[0], items + [3], items == [1, 2]
    (1, [1, 2, 3], True)
    >>> items[0] = 5
    Traceback (most recent call last):
    ...
    episodia.errors.EpisodeError: found a change of `buffer.data` in place, which would not reach the buffer; ...
    """

    __slots__ = ()

    def _reject(self, *_: object, **__: object) -> Never:
        raise EpisodeError(
            "found a change of `buffer.data` in place, which would not reach the buffer; expected a write into the buffer. "
            "Use `buffer[index] = item`, `buffer.append(item)`, `buffer.extend(items)` or `buffer.pop(index)`, or assign a "
            "whole list, `buffer.data = items`."
        )

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _reject
    append = extend = insert = pop = remove = clear = sort = reverse = _reject

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)
