#include "plan_mutator.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <limits>
#include <memory>
#include <vector>

namespace mezzo::test {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::int64_t kInts64[] = {0,
                                    -1,
                                    1,
                                    2,
                                    7,
                                    64,
                                    1 << 20,
                                    INT32_MAX,
                                    INT32_MIN,
                                    std::int64_t{1} << 33,
                                    std::int64_t{1} << 62,
                                    std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int64_t>::min()};
constexpr std::int32_t kInts32[] = {0, -1, 1, 5, 1000, INT32_MAX, INT32_MIN};
constexpr std::uint64_t kUints64[] = {
    0, 1, 63, 64, 128, std::uint64_t{1} << 32, std::uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 63};
constexpr std::uint32_t kUints32[] = {0, 1, 2, 5, 7, 9, 10, 16, 100, 1U << 31, UINT32_MAX};
constexpr double kDoubles[] = {0,
                               -1,
                               1e300,
                               -1e300,
                               5e-324,
                               std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()};

class Mutator {
 public:
  Mutator(proto::Plan& plan,
          const std::function<void(const proto::Plan&, const std::string&)>& visit)
      : plan_(plan), visit_(visit) {}
  std::int64_t count() const { return count_; }

  void walk(Message& message, const std::string& path) {
    const Reflection& access = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i)
      fields.push_back(message.GetDescriptor()->field(i));
    for (const FieldDescriptor* field : fields) {
      const std::string name = path + "." + field->name();
      if (field->is_map()) continue;
      if (field->is_repeated()) {
        repeated(message, access, field, name);
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        if (!access.HasField(message, field)) continue;
        walk(*access.MutableMessage(&message, field), name);
        cleared(message, access, field, name);
      } else {
        scalar(message, access, field, name);
      }
    }
  }

 private:
  void report(const std::string& what) {
    ++count_;
    visit_(plan_, what);
  }

  // Restores the whole message around it: enough, and simple.
  void cleared(Message& message, const Reflection& access, const FieldDescriptor* field,
               const std::string& name) {
    const auto kept = copy(message);
    access.ClearField(&message, field);
    report(name + " cleared");
    message.CopyFrom(*kept);
  }
  static std::unique_ptr<Message> copy(const Message& message) {
    std::unique_ptr<Message> out(message.New());
    out->CopyFrom(message);
    return out;
  }

  template <typename Values, typename Set>
  void each(Message& message, const Values& values, const std::string& name, const Set& set) {
    const auto kept = copy(message);
    for (const auto& value : values) {
      set(value);
      report(name + " = " + std::to_string(value));
      message.CopyFrom(*kept);
    }
  }

  void scalar(Message& message, const Reflection& access, const FieldDescriptor* field,
              const std::string& name) {
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT64:
        return each(message, kInts64, name, [&](auto v) { access.SetInt64(&message, field, v); });
      case FieldDescriptor::CPPTYPE_INT32:
        return each(message, kInts32, name, [&](auto v) { access.SetInt32(&message, field, v); });
      case FieldDescriptor::CPPTYPE_UINT64:
        return each(message, kUints64, name, [&](auto v) { access.SetUInt64(&message, field, v); });
      case FieldDescriptor::CPPTYPE_UINT32:
        return each(message, kUints32, name, [&](auto v) { access.SetUInt32(&message, field, v); });
      case FieldDescriptor::CPPTYPE_DOUBLE:
        if (field->containing_oneof() != nullptr && !access.HasField(message, field)) return;
        return each(message, kDoubles, name, [&](auto v) { access.SetDouble(&message, field, v); });
      case FieldDescriptor::CPPTYPE_BOOL: {
        const bool old = access.GetBool(message, field);
        access.SetBool(&message, field, !old);
        report(name + " flipped");
        access.SetBool(&message, field, old);
        return;
      }
      case FieldDescriptor::CPPTYPE_ENUM:
        return each(message, kInts32, name,
                    [&](auto v) { access.SetEnumValue(&message, field, v); });
      case FieldDescriptor::CPPTYPE_STRING: {
        const auto kept = copy(message);
        for (const std::string& text : {std::string(), std::string("Relu"), std::string(3, '\0'),
                                        std::string(1 << 16, 'x')}) {
          access.SetString(&message, field, text);
          report(name + " = text of " + std::to_string(text.size()) + " bytes");
          message.CopyFrom(*kept);
        }
        return;
      }
      default: return;
    }
  }

  void repeated(Message& message, const Reflection& access, const FieldDescriptor* field,
                const std::string& name) {
    const int size = access.FieldSize(message, field);
    for (int i = 0; i < size; ++i) {
      const std::string element = name + "[" + std::to_string(i) + "]";
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
        walk(*access.MutableRepeatedMessage(&message, field, i), element);
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64)
        each(message, kInts64, element,
             [&](auto v) { access.SetRepeatedInt64(&message, field, i, v); });
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
        each(message, kInts32, element,
             [&](auto v) { access.SetRepeatedInt32(&message, field, i, v); });
        // Every other tensor of the plan in its place.
        std::vector<std::int32_t> others;
        for (int t = 0; t < plan_.tensors_size(); t += 3) others.push_back(t);
        each(message, others, element,
             [&](auto v) { access.SetRepeatedInt32(&message, field, i, v); });
      }
    }
    if (size == 0) return;
    cleared(message, access, field, name);
    const auto kept = copy(message);
    access.RemoveLast(&message, field);
    report(name + " without its last");
    message.CopyFrom(*kept);
    if (size > 1) {
      access.SwapElements(&message, field, 0, size - 1);
      report(name + " with first and last exchanged");
      message.CopyFrom(*kept);
    }
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) access.AddInt64(&message, field, 2);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) access.AddInt32(&message, field, 0);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const auto last = copy(access.GetRepeatedMessage(message, field, size - 1));
      access.AddMessage(&message, field)->CopyFrom(*last);
    }
    report(name + " with one more");
    message.CopyFrom(*kept);
  }

  proto::Plan& plan_;
  const std::function<void(const proto::Plan&, const std::string&)>& visit_;
  std::int64_t count_ = 0;
};

}  // namespace

std::int64_t for_each_mutant(
    const proto::Plan& plan,
    const std::function<void(const proto::Plan&, const std::string&)>& visit) {
  proto::Plan mutant = plan;
  Mutator mutator(mutant, visit);
  mutator.walk(mutant, "plan");
  return mutator.count();
}

}  // namespace mezzo::test
