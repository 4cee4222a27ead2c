"""A property that is computed once, without the lock that the standard one takes in Python 3.11."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class lazy(Generic[T]):
    """Compute a value on first use and keep it in the object; a decision is made in one thread."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> lazy[T]: ...

    @overload
    def __get__(self, instance: object, owner: type[Any]) -> T: ...

    def __get__(self, instance: object | None, owner: type[Any]) -> lazy[T] | T:
        """Compute; the kept value hides this descriptor from then on."""
        if instance is None:
            return self
        value = self._compute(instance)
        setattr(instance, self._name, value)
        return value
