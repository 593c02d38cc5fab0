"""The methods: one paper, one module, one class. ``discover()`` lists them by file name; ``load(name)`` makes one.

A method with parts of its own is a folder, whose ``__init__.py`` defines the class. Other packages add methods by the
entry point group ``sortition.selectors``. Nothing is imported before it is loaded.
"""

from sortition.selectors._find_by_name import ALIASES, GROUP, VARIANTS, discover, find, load, variant_entry

__all__ = ["ALIASES", "GROUP", "VARIANTS", "discover", "find", "load", "variant_entry"]
