"""The handlers, one module per AWS service or family. Importing this package fills `localcloud.engine.resource.RESOURCES`."""
