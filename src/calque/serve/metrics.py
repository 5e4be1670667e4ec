"""What a server counts, in the text format of Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from calque.serve.batches import Batcher

FORMAT = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class _State(Collector):
    def __init__(self, batcher: Batcher):
        self._batcher = batcher

    def collect(self) -> list[GaugeMetricFamily]:
        """What is true at this moment."""
        runs = GaugeMetricFamily("calque_run_in_memory", "1: the run of a pair is in memory", labels=["pair"])
        held = self._batcher.runs.in_memory()
        for pair in self._batcher.runs.folders:
            runs.add_metric([str(pair)], int(pair in held))
        waiting = GaugeMetricFamily("calque_waiting_lines", "lines that no batch has taken", self._batcher.waiting)
        most = GaugeMetricFamily("calque_waiting_lines_most", "lines that may wait", self._batcher.most)
        return [runs, waiting, most]


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        here = self._registry
        self.requests = Counter("calque_requests", "answers", ["route", "status"], registry=here)
        self.seconds = Histogram(
            "calque_request_seconds", "time to the answer", ["route"], buckets=_SECONDS, registry=here
        )
        self.lines = Counter("calque_lines", "lines translated", ["pair"], registry=here)
        self.characters = Counter("calque_characters", "characters of texts translated", ["pair"], registry=here)
        self.left = Counter("calque_clients_left", "requests whose client has left", registry=here)
        self.batch_rows = Histogram(
            "calque_batch_rows", "lines of a batch", buckets=(1, 2, 4, 8, 16, 32, 64), registry=here
        )
        self.batch_seconds = Histogram("calque_batch_seconds", "time of a batch", buckets=_SECONDS, registry=here)

    def watch(self, batcher: Batcher) -> None:
        """Shows the state of the queue and the runs."""
        self._registry.register(_State(batcher))

    def batch(self, rows: int, seconds: float) -> None:
        """Counts a batch."""
        self.batch_rows.observe(rows)
        self.batch_seconds.observe(seconds)

    def answer(self, route: str, status: int, seconds: float) -> None:
        """Counts an answer."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All figures."""
        return generate_latest(self._registry)
