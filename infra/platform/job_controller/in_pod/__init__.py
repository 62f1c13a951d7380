"""Job controller: the program that runs in the controller's pod. It uses only Python's standard library.

`reconcile.py` calls the concerns in order: each concern is a module with a function that receives the job's record
and objects, changes the record, and returns actions; it makes no requests. The loop writes the record first, then
performs the actions. All actions are idempotent, so the controller can be killed at any moment.
"""
