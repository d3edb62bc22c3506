#include "compiler/ir/graph.h"

namespace mezzo {
namespace {

bool same_domain(std::string_view a, std::string_view b) {
  return canonical_domain(a) == canonical_domain(b);
}

}  // namespace

std::int64_t Model::opset(std::string_view domain) const {
  for (const OpsetImport& import : opsets) {
    if (same_domain(import.domain, domain)) return import.version;
  }
  return 0;
}

void Model::set_opset(std::string_view domain, std::int64_t version) {
  for (OpsetImport& import : opsets) {
    if (same_domain(import.domain, domain)) {
      import.version = version;
      return;
    }
  }
  opsets.push_back({std::string(domain), version});
}

}  // namespace mezzo
