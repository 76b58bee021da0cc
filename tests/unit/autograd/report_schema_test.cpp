// report_json writes what report.schema.json says. The checker knows the part of JSON Schema that the schema uses, and refuses the rest.
#include <spool/autograd/report.h>

#include <nlohmann/json.hpp>

#include <fstream>
#include <set>

namespace spool::test {
namespace {

using Json = nlohmann::json;

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  return type == "null" && value.is_null();
}

/// What is wrong with `value`, or nothing.
std::string fault(const Json& value, const Json& rules, const Json& schema, const std::string& at) {
  static const std::set<std::string> known{"$ref", "type", "const", "enum", "anyOf", "minimum", "minItems", "maxItems", "required", "additionalProperties", "properties", "items",
                                           "description", "title", "$schema", "$defs"};
  for (const auto& [rule, how] : rules.items())
    if (!known.count(rule)) return concat(at, ": the checker does not know ", rule);
  if (rules.contains("$ref")) {
    const std::string wrong = fault(value, schema.at(Json::json_pointer(rules["$ref"].get<std::string>().substr(1))), schema, at);
    if (!wrong.empty()) return wrong;
  }
  if (rules.contains("const") && value != rules["const"]) return concat(at, ": is ", value.dump());
  if (rules.contains("enum") && std::find(rules["enum"].begin(), rules["enum"].end(), value) == rules["enum"].end()) return concat(at, ": is ", value.dump());
  if (rules.contains("anyOf") && std::none_of(rules["anyOf"].begin(), rules["anyOf"].end(), [&](const Json& one) { return fault(value, one, schema, at).empty(); }))
    return concat(at, ": is none of those allowed");
  if (rules.contains("type")) {
    const Json types = rules["type"].is_array() ? rules["type"] : Json::array({rules["type"]});
    if (std::none_of(types.begin(), types.end(), [&](const Json& type) { return has_type(value, type); })) return concat(at, ": has another type: ", value.dump());
  }
  if (rules.contains("minimum") && value.is_number() && value < rules["minimum"]) return concat(at, ": is too small: ", value.dump());
  if (value.is_array()) {
    if (rules.contains("minItems") && value.size() < rules["minItems"]) return concat(at, ": is too short");
    if (rules.contains("maxItems") && value.size() > rules["maxItems"]) return concat(at, ": is too long");
    for (size_t i = 0; i < value.size() && rules.contains("items"); ++i)
      if (const std::string wrong = fault(value[i], rules["items"], schema, concat(at, "[", i, "]")); !wrong.empty()) return wrong;
  }
  if (value.is_object()) {
    for (const auto& name : rules.value("required", Json::array()))
      if (!value.contains(name)) return concat(at, ": lacks ", name.dump());
    for (const auto& [name, member] : value.items()) {
      if (rules.contains("properties") && rules["properties"].contains(name)) {
        if (const std::string wrong = fault(member, rules["properties"][name], schema, at + "." + name); !wrong.empty()) return wrong;
      } else if (rules.contains("additionalProperties")) {
        return concat(at, ": ", name, " is not in the schema");
      }
    }
  }
  return "";
}

Json report_with_everything() {
  const auto ledger = std::make_shared<Ledger>();
  const Plan plan = record_plan(ledger, [&] {
    const uint64_t scope = ledger->begin_scope("block", intern_path("layers.0"));
    ledger->scope(scope, Event::Moment::end, "block", intern_path("layers.0"));
    const uint64_t id = ledger->allocate(1000, Category::saved, intern_path("layers.0"), "linear");
    ledger->phase("backward");
    ledger->scope(scope, Event::Moment::replay, "block", intern_path("layers.0"));
    ledger->scope(scope, Event::Moment::replayed, "block", intern_path("layers.0"));
    ledger->allocate(500, Category::temporary, 0, "");
    ledger->release(id, 1000, Category::saved);
    ledger->allocate(2000, Category::gradient, 0, "gelu");
  });
  MemoryReport r = limited_report(plan, 1200);
  r.compare(plan, Plan{});
  r.closed_form = PeakFigures{2500, CategoryBytes{}};
  r.outside = 7;
  r.suggestions = {{"do less", "--set a=b", 1, 0.5}, {"do more", "--set a=c", 2, 0}};
  return Json::parse(report_json(r));
}

class ReportSchema : public testing::Test {
 protected:
  const Json schema = Json::parse(std::ifstream(SPOOL_SOURCE_DIR "/autograd/report/report.schema.json"));
  std::string wrong(const Json& report) const { return fault(report, schema, schema, "report"); }
};

TEST_F(ReportSchema, DescribesReports) {
  EXPECT_EQ(wrong(Json::parse(report_json(make_report(Plan{})))), "") << "with nothing known";
  const Json report = report_with_everything();
  EXPECT_EQ(wrong(report), "");
  for (const char* list : {"candidates", "modules", "ops", "scopes", "suggestions", "live"}) EXPECT_FALSE(report.at(list).empty()) << list << " of the example";
  for (const char* one : {"closed_form_categories", "measured_categories", "departure", "limit", "outside"}) EXPECT_FALSE(report.at(one).is_null()) << one << " of the example";
}

/// Every member, however deep, is missed and its type is seen.
TEST_F(ReportSchema, SeesFaults) {
  const Json report = report_with_everything();
  const Json flat = report.flatten();
  for (const auto& [place, value] : flat.items()) {
    const Json::json_pointer at(place);
    Json other = report;
    other[at] = Json::object();
    EXPECT_NE(wrong(other), "") << place;
    if (report.at(at.parent_pointer()).is_array()) continue;
    Json less = report;
    less[at.parent_pointer()].erase(at.back());
    EXPECT_NE(wrong(less), "") << place;
  }
  Json more = report;
  more["live"][0]["colour"] = "red";
  EXPECT_EQ(wrong(more), "report.live[0]: colour is not in the schema");
}

}  // namespace
}  // namespace spool::test
