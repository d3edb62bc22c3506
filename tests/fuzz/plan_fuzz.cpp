// Any bytes as the message of a plan: checked, wrapped as a plan file and read, and where the check
// finds no fault, measured as the runtime does. As a whole file too, whose checksum then seldom
// fits.
#include <memory>
#include <string>

#include "compiler/plan/plan.pb.h"
#include "fuzz_target.h"
#include "runtime/exec/plan_check.h"
#include "runtime/exec/plan_file.h"

namespace mezzo::fuzz {
namespace {

void run(Bytes bytes) {
  accepted(runtime::load_plan(write_scratch("raw.plan", bytes)).status(), "load_plan");
  proto::Plan plan;
  if (!plan.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const Status status = runtime::check_plan(plan);
  const std::string file = runtime::plan_file_bytes(plan);
  const std::string path = write_scratch("wrapped.plan", std::as_bytes(std::span(file)));
  accepted(runtime::load_plan(path).status(), "load_plan");
  const auto read = runtime::read_plan(path);
  demand(read.ok() == accepted(status, "check_plan"), "a plan file is as sound as its message",
         read.ok() ? status.message() : read.status().message());
  if (!read.ok()) return;
  for (const auto& tensor : plan.tensors()) (void)runtime::tensor_bytes(tensor);
}

std::unique_ptr<google::protobuf::Message> new_message() { return std::make_unique<proto::Plan>(); }

}  // namespace

const Target plan_target = {"plan", run, new_message};

}  // namespace mezzo::fuzz
