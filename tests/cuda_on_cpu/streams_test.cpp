// The stand-in for libcudart: the order of what streams hold, events, recording into graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/facility_kernels.h"
#include "tests/cuda_on_cpu/stand_in.h"

namespace cuda_on_cpu_test {
namespace {

// Two streams, an event for each direction, and a log of what was done.
class Streams : public ::testing::Test {
 protected:
  void SetUp() override {
    for (cudaStream_t& stream : streams_) {
      ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    }
    for (cudaEvent_t& event : events_) ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  }
  void TearDown() override {
    cuda_on_cpu::set_stream_order(0);
    cuda_on_cpu::ignore_stream_wait(0);
    for (cudaStream_t const stream : streams_) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    for (cudaEvent_t const event : events_) EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    EXPECT_EQ(cuda_on_cpu::take_fault(), "");
  }
  void note(int stream, int number) {
    ASSERT_EQ(cuda_on_cpu::enqueue(streams_[static_cast<std::size_t>(stream)], "note",
                                   [this, number] { log_.push_back(number); }),
              cudaSuccess);
  }
  void wait_for(int waiting, int other) {
    const auto from = static_cast<std::size_t>(other), to = static_cast<std::size_t>(waiting);
    ASSERT_EQ(cudaEventRecord(events_[from], streams_[from]), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(streams_[to], events_[from], 0), cudaSuccess);
  }
  std::vector<int> finish() {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return std::exchange(log_, {});
  }
  // 1 on one stream, 2 on the other, which waits for it; both then lead to 3.
  void diamond() {
    note(0, 1);
    wait_for(1, 0);
    note(1, 2);
    note(0, 4);
    wait_for(0, 1);
    note(0, 3);
  }

  std::array<cudaStream_t, 2> streams_{};
  std::array<cudaEvent_t, 2> events_{};
  std::vector<int> log_;
};

TEST_F(Streams, WithoutAnOrderWorkIsDoneAtOnce) {
  note(0, 1);
  note(1, 2);
  EXPECT_EQ(log_, (std::vector<int>{1, 2}));
}

TEST_F(Streams, OrdersDifferWhereNothingForbidsIt) {
  bool two_first = false, one_first = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    cuda_on_cpu::set_stream_order(seed);
    note(0, 1);
    note(1, 2);
    const std::vector<int> done = finish();
    one_first |= done == std::vector<int>{1, 2};
    two_first |= done == std::vector<int>{2, 1};
  }
  EXPECT_TRUE(one_first && two_first);
}

TEST_F(Streams, EventsAreHeeded) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    cuda_on_cpu::set_stream_order(seed);
    diamond();
    const std::vector<int> done = finish();
    EXPECT_TRUE((done == std::vector<int>{1, 2, 4, 3}) || (done == std::vector<int>{1, 4, 2, 3}));
  }
}

TEST_F(Streams, AnIgnoredWaitShowsUnderSomeOrder) {
  for (const std::uint64_t wait : {1, 2}) {
    int wrong = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      cuda_on_cpu::set_stream_order(seed);
      cuda_on_cpu::ignore_stream_wait(wait);
      diamond();
      const std::vector<int> done = finish();
      wrong += (wait == 1 ? done.front() != 1 : done.back() != 3) ? 1 : 0;
    }
    EXPECT_GT(wrong, 0) << "wait " << wait;
    EXPECT_LT(wrong, 20) << "wait " << wait;
  }
}

TEST_F(Streams, PinnedMemoryIsReadWhenTheCopyIsDone) {
  cuda_on_cpu::set_stream_order(3);
  void *pinned = nullptr, *device = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 4), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&device, 4), cudaSuccess);
  auto& number = *static_cast<int*>(pinned);
  int got = 0, late = 0;
  for (int i = 0; i < 20; ++i) {
    number = 1;
    ASSERT_EQ(cudaMemcpyAsync(device, pinned, 4, cudaMemcpyHostToDevice, streams_[0]), cudaSuccess);
    number = 2;  // too early: this is what a test must see
    ASSERT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(&got, device, 4, cudaMemcpyDeviceToHost), cudaSuccess);
    late += got == 2 ? 1 : 0;
  }
  EXPECT_GT(late, 0);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(Streams, WhatCudaMemcpyHasStagedMayArriveLater) {
  void* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 4), cudaSuccess);
  int late = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    cuda_on_cpu::set_stream_order(seed);
    const int number = 1;
    int got = 0;
    ASSERT_EQ(cudaMemset(device, 0, 4), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(device, &number, 4, cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(&got, device, 4, cudaMemcpyDeviceToHost, streams_[0]), cudaSuccess);
    late += got == 0 ? 1 : 0;
    ASSERT_EQ(cudaStreamSynchronize(cudaStreamLegacy), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(&got, device, 4, cudaMemcpyDeviceToHost, streams_[0]), cudaSuccess);
    EXPECT_EQ(got, 1);
  }
  EXPECT_GT(late, 0);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(Streams, OneThatBlocksComesAfterTheLegacyOne) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    cuda_on_cpu::set_stream_order(seed);
    const auto put = [this](cudaStream_t stream, int number) {
      return cuda_on_cpu::enqueue(stream, "note", [this, number] { log_.push_back(number); });
    };
    ASSERT_EQ(put(cudaStreamLegacy, 1), cudaSuccess);
    ASSERT_EQ(put(blocking, 2), cudaSuccess);
    ASSERT_EQ(put(cudaStreamLegacy, 3), cudaSuccess);
    EXPECT_EQ(finish(), (std::vector<int>{1, 2, 3}));
  }
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

class Graphs : public Streams {
 protected:
  cudaGraphExec_t record_diamond() {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
    diamond();
    EXPECT_TRUE(log_.empty()) << "recording does nothing";
    EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
    std::size_t nodes = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
    EXPECT_EQ(nodes, 4U);
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return executable;
  }
};

TEST_F(Graphs, AreDoneInAnOrderThatTheirEdgesAllow) {
  for (std::uint64_t seed = 0; seed <= 20; ++seed) {
    cuda_on_cpu::set_stream_order(seed);
    cudaGraphExec_t const graph = record_diamond();
    for (int launch = 0; launch < 3; ++launch) {
      ASSERT_EQ(cudaGraphLaunch(graph, streams_[0]), cudaSuccess);
      const std::vector<int> done = finish();
      EXPECT_TRUE((done == std::vector<int>{1, 2, 4, 3}) || (done == std::vector<int>{1, 4, 2, 3}));
    }
    EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  }
}

TEST_F(Graphs, AnIgnoredWaitIsAMissingEdge) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    cuda_on_cpu::set_stream_order(seed);
    cuda_on_cpu::ignore_stream_wait(1);
    cudaGraphExec_t const graph = record_diamond();
    ASSERT_EQ(cudaGraphLaunch(graph, streams_[0]), cudaSuccess);
    wrong += finish().front() != 1 ? 1 : 0;
    EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  }
  EXPECT_GT(wrong, 0);
}

TEST_F(Graphs, AStreamThatDoesNotLeadBackIsAnError) {
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
  note(0, 1);
  wait_for(1, 0);
  note(1, 2);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  cuda_on_cpu::take_fault();
}

TEST_F(Graphs, WaitingForTheDeviceBreaksARecording) {
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
  note(0, 1);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  cuda_on_cpu::take_fault();
}

TEST_F(Graphs, AskingWhetherAnEventHasComeBreaksARecording) {
  ASSERT_EQ(cudaEventRecord(events_[1], streams_[1]), cudaSuccess);
  for (const auto ask : {cudaEventQuery, cudaEventSynchronize}) {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(ask(events_[1]), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  }
  cuda_on_cpu::take_fault();
}

TEST_F(Graphs, PageableMemoryIsNotCopiedIntoThem) {
  void* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 4), cudaSuccess);
  int number = 1;
  for (const bool back : {false, true}) {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(back ? cudaMemcpyAsync(&number, device, 4, cudaMemcpyDeviceToHost, streams_[0])
                   : cudaMemcpyAsync(device, &number, 4, cudaMemcpyHostToDevice, streams_[0]),
              cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  }
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  cuda_on_cpu::take_fault();
}

TEST_F(Graphs, AKernelIsNotLoadedWhileItIsRecorded) {
  void* y = nullptr;
  ASSERT_EQ(cudaMalloc(&y, 4), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(launch_only_here(static_cast<int*>(y), streams_[0]), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(launch_only_here(static_cast<int*>(y), streams_[0]), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(launch_only_here(static_cast<int*>(y), streams_[0]), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaFree(y), cudaSuccess);
}

TEST_F(Graphs, WaitingForWhatWasNotRecordedIsAnError) {
  note(1, 1);
  ASSERT_EQ(cudaEventRecord(events_[1], streams_[1]), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(streams_[0], events_[1], 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  cuda_on_cpu::take_fault();
}

TEST_F(Graphs, KernelsKeepTheArgumentsTheyWereRecordedWith) {
  void *x = nullptr, *y = nullptr;
  ASSERT_EQ(cudaMalloc(&x, 40), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&y, 40), cudaSuccess);
  ASSERT_EQ(cudaMemset(x, 0, 40), cudaSuccess);
  ASSERT_EQ(launch_add_one(static_cast<int*>(x), static_cast<int*>(y), 10, streams_[0]),
            cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(launch_add_one(static_cast<int*>(x), static_cast<int*>(y), 10, streams_[0]),
            cudaSuccess);
  ASSERT_EQ(launch_add_one(static_cast<int*>(y), static_cast<int*>(x), 10, streams_[0]),
            cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(cudaGraphLaunch(executable, streams_[0]), cudaSuccess);
  std::vector<int> got(10);
  ASSERT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(got.data(), x, 40, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(got, std::vector<int>(10, 10));
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaFree(x), cudaSuccess);
  EXPECT_EQ(cudaFree(y), cudaSuccess);
}

}  // namespace
}  // namespace cuda_on_cpu_test
