"""Runner of one Pulumi program. The language host starts it in a new process with the program's interpreter.

This module imports no other module of this project, since such a module may be unavailable to the program's
interpreter. Arguments: see `main`. As with the official host, the configuration is in PULUMI_CONFIG and
PULUMI_CONFIG_SECRET_KEYS.
"""

import argparse
import asyncio
import logging
import os
import runpy
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pulumi
import pulumi.runtime

SHOWN = 32
"""Exit code of a failed program whose error has already been shown to the user."""
LOOK_FOR_PARENT_SECONDS = 0.5


def end_with_parent() -> None:
    """Exit this process when its parent process dies."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_FOR_PARENT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()


def main() -> int:
    parser = argparse.ArgumentParser()
    for option in ("project", "stack", "organization", "root-directory", "monitor", "engine", "pwd"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--parallel", type=int, required=True)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("program", type=Path, help="folder with a __main__.py, or a Python file")
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    end_with_parent()

    pulumi.runtime.set_all_config(pulumi.runtime.get_config_env(), pulumi.runtime.get_config_secret_keys_env())
    pulumi.runtime.configure(
        pulumi.runtime.Settings(
            monitor=options.monitor,
            engine=options.engine,
            project=options.project,
            stack=options.stack,
            parallel=options.parallel,
            dry_run=options.dry_run,
            organization=options.organization,
            root_directory=options.root_directory,
        )
    )
    sys.argv = [str(options.program), *options.arguments]
    os.chdir(options.pwd)
    folder = options.program if options.program.is_dir() else options.program.parent
    if not options.program.is_dir():
        sys.path.insert(0, str(folder))  # runpy extends sys.path only for folders
    return run(options.program, folder, options.parallel)


def run(program: Path, folder: Path, parallel: int) -> int:
    """Run the program in the context of a stack. Report a failure to the user only once."""
    # When a resource fails, nothing retrieves the results of tasks that wait for it, and asyncio would log each task.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    executor = ThreadPoolExecutor(max_workers=max(parallel, 1) * 4)
    loop.set_default_executor(executor)

    def user_program() -> None:
        runpy.run_path(str(program), run_name="__main__")

    try:
        loop.run_until_complete(pulumi.runtime.run_in_stack(user_program))
        return 0
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
    except Exception as error:
        pulumi.log.error(f"Program failed with an unhandled exception:\n{users_traceback(error, folder)}")
    finally:
        executor.shutdown(wait=True)
        loop.close()
        sys.stdout.flush()
        sys.stderr.flush()
    return SHOWN


def users_traceback(error: BaseException, folder: Path) -> str:
    """Format the traceback, starting at the first frame of user code. The preceding frames of this runner and of Pulumi
    are omitted."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [place for place, frame in enumerate(frames) if Path(frame.filename).is_relative_to(folder.resolve())]
    limit = own[0] - len(frames) if own else None
    return "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=limit))


if __name__ == "__main__":
    sys.exit(main())
