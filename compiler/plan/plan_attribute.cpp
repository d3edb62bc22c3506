#include "compiler/plan/plan_attribute.h"

namespace mezzo {

bool to_plan_attribute(const Attribute& attribute, proto::Attribute* out) {
  out->set_name(attribute.name);
  switch (attribute.kind()) {
    case Attribute::Kind::kFloat: out->set_f(std::get<float>(attribute.value)); return true;
    case Attribute::Kind::kInt: out->set_i(std::get<std::int64_t>(attribute.value)); return true;
    case Attribute::Kind::kString: out->set_s(std::get<std::string>(attribute.value)); return true;
    case Attribute::Kind::kInts: {
      out->mutable_ints();  // an empty list is a list, too
      for (std::int64_t v : std::get<std::vector<std::int64_t>>(attribute.value))
        out->mutable_ints()->add_values(v);
      return true;
    }
    case Attribute::Kind::kFloats: {
      out->mutable_floats();
      for (float v : std::get<std::vector<float>>(attribute.value))
        out->mutable_floats()->add_values(v);
      return true;
    }
    default: return false;
  }
}

}  // namespace mezzo
