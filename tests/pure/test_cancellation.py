"""Cancellation of a provider's in-flight requests."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from localcloud.engine.kubernetes.cancellation import Canceled, Cancellation


def test_canceled_request_returns_at_once_but_is_still_processed() -> None:
    cancellation, sent, release, processed = Cancellation(), threading.Event(), threading.Event(), threading.Event()

    def send_request() -> str:
        sent.set()
        release.wait()
        processed.set()
        return "created"

    with ThreadPoolExecutor() as pool:
        answer = pool.submit(cancellation.run, send_request)
        assert sent.wait(60)
        cancellation.request()
        with pytest.raises(Canceled, match="context canceled"):
            answer.result(60)
        assert not processed.is_set()
    release.set()
    assert processed.wait(60)


def test_cancellation_prevents_further_requests() -> None:
    cancellation = Cancellation()
    cancellation.request()
    with pytest.raises(Canceled):
        cancellation.run(lambda: pytest.fail("sent"))


def test_without_cancellation_responses_and_errors_pass_through() -> None:
    cancellation = Cancellation()
    assert cancellation.run(lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        cancellation.run(lambda: 1 // 0)
    cancellation.request()
