"""Cancellation of a provider's in-flight requests."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from localcloud.engine.kubernetes.cancellation import Canceled, Cancellation


def test_a_request_in_flight_ends_at_once_and_is_processed_nevertheless() -> None:
    cancellation, sent, release, processed = Cancellation(), threading.Event(), threading.Event(), threading.Event()

    def send() -> str:
        sent.set()
        release.wait()
        processed.set()
        return "created"

    with ThreadPoolExecutor() as pool:
        answer = pool.submit(cancellation.run, send)
        assert sent.wait(60)
        cancellation.request()
        with pytest.raises(Canceled, match="context canceled"):
            answer.result(60)
        assert not processed.is_set()
    release.set()
    assert processed.wait(60)


def test_after_a_cancellation_nothing_is_sent() -> None:
    cancellation = Cancellation()
    cancellation.request()
    with pytest.raises(Canceled):
        cancellation.run(lambda: pytest.fail("sent"))


def test_without_a_cancellation_answers_and_errors_are_passed_on() -> None:
    cancellation = Cancellation()
    assert cancellation.run(lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        cancellation.run(lambda: 1 // 0)
    cancellation.request()
