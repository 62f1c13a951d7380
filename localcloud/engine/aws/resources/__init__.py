"""Resource handlers, one module per AWS service or family. Importing this package registers all handlers in
`resource.RESOURCES`."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
