"""Worker processes that take jobs one by one: a crash or a hang of native code costs one job only."""
import multiprocessing
import queue
import threading
import traceback


class JobLost(Exception):
    """The process died, ran out of time, or the function raised."""


def run_jobs(function, jobs, workers, timeout, report):
    """Calls report(job, function(job) or JobLost) for each job, from one thread at a time."""
    waiting = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    lock = threading.Lock()

    def serve():
        worker = None
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                break
            try:
                worker = worker or Worker(function)
                result = worker.call(job, timeout)
            except JobLost as error:
                worker, result = None, error
            with lock:
                report(job, result)
        if worker:
            worker.stop()

    threads = [threading.Thread(target=serve) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Worker:
    def __init__(self, function):
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=answer, args=(function, other), daemon=True)
        self.process.start()
        other.close()

    def call(self, job, timeout):
        try:
            self.pipe.send(job)
            if not self.pipe.poll(timeout):
                self.stop()
                raise JobLost(f"no answer within {timeout} s")
            good, value = self.pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self.process.join()
            raise JobLost(f"the process died with status {self.process.exitcode}") from None
        if not good:
            self.stop()
            raise JobLost(value)
        return value

    def stop(self):
        self.process.kill()
        self.process.join()


def answer(function, pipe):
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, function(job)))
        except Exception:  # noqa: BLE001 - the parent reports it
            pipe.send((False, traceback.format_exc()))
