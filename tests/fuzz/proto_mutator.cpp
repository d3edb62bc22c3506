#include "proto_mutator.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/reflection.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "onnx/defs/schema.h"

namespace mezzo::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::int64_t kNumbers[] = {0,
                                     1,
                                     2,
                                     3,
                                     7,
                                     16,
                                     100,
                                     127,
                                     255,
                                     65536,
                                     -1,
                                     -2,
                                     1000000,
                                     std::numeric_limits<std::int32_t>::max(),
                                     std::numeric_limits<std::int32_t>::min(),
                                     std::int64_t{1} << 31,
                                     std::int64_t{1} << 32,
                                     std::int64_t{1} << 61,
                                     std::numeric_limits<std::int64_t>::max(),
                                     std::numeric_limits<std::int64_t>::min()};
constexpr double kReals[] = {0.0,
                             -0.0,
                             1.0,
                             -1.0,
                             0.5,
                             1e-45,
                             6e-8,
                             65504.,
                             65520.,
                             3.4e38,
                             1e300,
                             -1e9,
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()};
constexpr const char* kTexts[] = {"",
                                  "..",
                                  "/",
                                  "weights.bin",
                                  "sub/more.bin",
                                  "link.bin",
                                  "up/outside.bin",
                                  "0",
                                  "4096",
                                  "18446744073709551615",
                                  "-1",
                                  "location",
                                  "offset",
                                  "length",
                                  "elided",
                                  "ai.onnx",
                                  "com.microsoft",
                                  "ai.onnx.preview.training",
                                  "x",
                                  "\n",
                                  "\xff"};

const std::vector<std::string>& op_types() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const auto& schema : onnx::OpSchemaRegistry::get_all_schemas()) {
      out.push_back(schema.Name());
    }
    return out;
  }();
  return names;
}

class Mutator {
 public:
  Mutator(Message& root, std::uint32_t seed) : root_(root), random_(seed) {}

  void run() {
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      messages_.clear();
      texts_.clear();
      collect(root_);
      change(*messages_[below(messages_.size())]);
    }
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  void collect(Message& message) {
    messages_.push_back(&message);
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      if (field->type() == FieldDescriptor::TYPE_STRING) {
        for (int i = 0; i < std::min(size, 64); ++i) {
          texts_.push_back(field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                                : reflection.GetString(message, field));
        }
      }
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      for (int i = 0; i < size; ++i) {
        collect(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                     : *reflection.MutableMessage(&message, field));
      }
    }
  }

  // A field that is set, or now and then any field of the message's type.
  const FieldDescriptor* pick_field(const Message& message) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    const auto& type = *message.GetDescriptor();
    if (fields.empty() || below(5) == 0) {
      if (type.field_count() == 0) return nullptr;
      return type.field(static_cast<int>(below(static_cast<std::size_t>(type.field_count()))));
    }
    return fields[below(fields.size())];
  }

  void change(Message& message) {
    const FieldDescriptor* field = pick_field(message);
    if (field == nullptr) return;
    const Reflection& reflection = *message.GetReflection();
    if (!field->is_repeated()) {
      if (below(6) == 0) return reflection.ClearField(&message, field);
      return set(message, field, -1);
    }
    const int size = reflection.FieldSize(message, field);
    const auto any = [&] { return static_cast<int>(below(static_cast<std::size_t>(size))); };
    switch (size == 0 ? 0 : below(5)) {
      case 0: return add(message, field);
      case 1: return reflection.SwapElements(&message, field, any(), any());
      case 2:
        reflection.SwapElements(&message, field, any(), size - 1);
        return reflection.RemoveLast(&message, field);
      default: return set(message, field, any());
    }
  }

  void add(Message& message, const FieldDescriptor* field) {
    const Reflection& reflection = *message.GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32: reflection.AddInt32(&message, field, 0); break;
      case FieldDescriptor::CPPTYPE_INT64: reflection.AddInt64(&message, field, 0); break;
      case FieldDescriptor::CPPTYPE_UINT32: reflection.AddUInt32(&message, field, 0); break;
      case FieldDescriptor::CPPTYPE_UINT64: reflection.AddUInt64(&message, field, 0); break;
      case FieldDescriptor::CPPTYPE_DOUBLE: reflection.AddDouble(&message, field, 0); break;
      case FieldDescriptor::CPPTYPE_FLOAT: reflection.AddFloat(&message, field, 0); break;
      case FieldDescriptor::CPPTYPE_BOOL: reflection.AddBool(&message, field, false); break;
      case FieldDescriptor::CPPTYPE_ENUM: reflection.AddEnumValue(&message, field, 0); break;
      case FieldDescriptor::CPPTYPE_STRING: reflection.AddString(&message, field, ""); break;
      case FieldDescriptor::CPPTYPE_MESSAGE: reflection.AddMessage(&message, field); break;
    }
    set(message, field, reflection.FieldSize(message, field) - 1);
  }

  std::int64_t number() {
    if (below(4) == 0) return static_cast<std::int64_t>(below(40)) - 4;
    return kNumbers[below(std::size(kNumbers))];
  }
  double real() { return kReals[below(std::size(kReals))]; }
  std::string text(const FieldDescriptor& field) {
    if (field.name() == "op_type" && below(4) != 0) return op_types()[below(op_types().size())];
    if (texts_.empty() || below(4) == 0) return kTexts[below(std::size(kTexts))];
    return texts_[below(texts_.size())];
  }
  std::string raw(std::string old) {
    if (below(3) == 0) old.resize(below(old.size() * 2 + 9));
    if (!old.empty()) old[below(old.size())] = static_cast<char>(random_());
    return old;
  }

  // Sets the field, or its element `at` where that is not negative.
  void set(Message& message, const FieldDescriptor* field, int at) {
    const Reflection& reflection = *message.GetReflection();
    const auto put = [&](auto one, auto element, auto value) {
      if (at < 0) {
        (reflection.*one)(&message, field, value);
      } else {
        (reflection.*element)(&message, field, at, value);
      }
    };
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return put(&Reflection::SetInt32, &Reflection::SetRepeatedInt32,
                   static_cast<std::int32_t>(number()));
      case FieldDescriptor::CPPTYPE_INT64:
        return put(&Reflection::SetInt64, &Reflection::SetRepeatedInt64, number());
      case FieldDescriptor::CPPTYPE_UINT32:
        return put(&Reflection::SetUInt32, &Reflection::SetRepeatedUInt32,
                   static_cast<std::uint32_t>(number()));
      case FieldDescriptor::CPPTYPE_UINT64:
        return put(&Reflection::SetUInt64, &Reflection::SetRepeatedUInt64,
                   static_cast<std::uint64_t>(number()));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return put(&Reflection::SetDouble, &Reflection::SetRepeatedDouble, real());
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const double value = real();
        const bool fits = !(value > std::numeric_limits<float>::max());
        return put(&Reflection::SetFloat, &Reflection::SetRepeatedFloat,
                   fits ? static_cast<float>(value) : std::numeric_limits<float>::infinity());
      }
      case FieldDescriptor::CPPTYPE_BOOL:
        return put(&Reflection::SetBool, &Reflection::SetRepeatedBool, below(2) == 0);
      case FieldDescriptor::CPPTYPE_ENUM: return set_enum(message, field, at);
      case FieldDescriptor::CPPTYPE_STRING: return set_text(message, field, at);
      case FieldDescriptor::CPPTYPE_MESSAGE: return set_message(message, field, at);
    }
  }

  void set_enum(Message& message, const FieldDescriptor* field, int at) {
    const auto& type = *field->enum_type();
    const int value =
        type.value(static_cast<int>(below(static_cast<std::size_t>(type.value_count()))))->number();
    const Reflection& reflection = *message.GetReflection();
    if (at < 0) return reflection.SetEnumValue(&message, field, value);
    reflection.SetRepeatedEnumValue(&message, field, at, value);
  }

  void set_text(Message& message, const FieldDescriptor* field, int at) {
    const Reflection& reflection = *message.GetReflection();
    const bool is_bytes = field->type() == FieldDescriptor::TYPE_BYTES;
    const std::string old = at < 0 ? reflection.GetString(message, field)
                                   : reflection.GetRepeatedString(message, field, at);
    const std::string value = is_bytes ? raw(old) : text(*field);
    if (at < 0) return reflection.SetString(&message, field, value);
    reflection.SetRepeatedString(&message, field, at, value);
  }

  // Another message of the same type from elsewhere, or a change inside.
  void set_message(Message& message, const FieldDescriptor* field, int at) {
    std::vector<const Message*> alike;
    for (const Message* other : messages_) {
      if (other->GetDescriptor() == field->message_type()) alike.push_back(other);
    }
    // By way of a copy: one of the two may hold the other, or setting a field may free it.
    std::unique_ptr<Message> copy;
    if (!alike.empty() && below(3) != 0) {
      const Message& other = *alike[below(alike.size())];
      copy.reset(other.New());
      copy->CopyFrom(other);
    }
    const Reflection& reflection = *message.GetReflection();
    Message& inner = at < 0 ? *reflection.MutableMessage(&message, field)
                            : *reflection.MutableRepeatedMessage(&message, field, at);
    if (copy) return inner.CopyFrom(*copy);
    messages_.clear();
    collect(root_);
    change(inner);
  }

  Message& root_;
  std::minstd_rand random_;
  std::vector<Message*> messages_;
  std::vector<std::string> texts_;
};

}  // namespace

void mutate_message(google::protobuf::Message& message, std::uint32_t seed) {
  Mutator(message, seed).run();
}

}  // namespace mezzo::fuzz
