// mezzo convert: an ONNX model in, a mixed-precision ONNX model out.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "compiler/onnx/export.h"
#include "compiler/report/report.h"
#include "compiler/support/atomic_file.h"
#include "passes/precision/policy_file.h"
#include "tools/mezzo/calibrate_model.h"
#include "tools/mezzo/command.h"
#include "tools/mezzo/compare_presets.h"
#include "tools/mezzo/convert_model.h"
#include "tools/mezzo/option_checks.h"
#include "tools/mezzo/options.h"
#include "tools/mezzo/output_places.h"

namespace mezzo::cli {
namespace {

struct ConvertCommand {
  std::string model, output, weights, report, json;
  std::vector<std::string> calibrate;
  PolicyOptions policy;
  ThreadOptions threads;
  DumpOptions dump;
  bool quiet = false, table = false, print_policy = false, compare_all = false;

  Status run() const {
    MEZZO_ASSIGN_OR_RETURN(const passes::PrecisionPolicy chosen, policy.to_policy());
    if (print_policy) {
      std::printf("%s", passes::policy_json(chosen).c_str());
      return ok_status();
    }
    MEZZO_RETURN_IF_ERROR(check_reports({}));  // rather now than after a long conversion
    std::optional<ModelCalibration> calibration;
    if (!calibrate.empty()) {
      MEZZO_ASSIGN_OR_RETURN(
          calibration, ModelCalibration::measure(model, calibrate, chosen, threads.count(), quiet));
    }
    const std::shared_ptr<const passes::Calibration> ranges =
        calibration ? calibration->ranges() : nullptr;
    MEZZO_ASSIGN_OR_RETURN(Converted converted, convert_model(model, chosen, padding_of(chosen),
                                                              dump.to_runner(), ranges, weights));
    MEZZO_RETURN_IF_ERROR(check_reports(converted.data_files));
    if (calibration) calibration->check(*converted.model, converted.records);
    // Which casts were removed again only the converted graph tells.
    Report described = make_report(*converted.model, converted.records);
    // Converting the model again takes time, which programs that read JSON may not have.
    if (compare_all || !report.empty()) {
      MEZZO_RETURN_IF_ERROR(compare_presets(
          model, policy, chosen,
          compare_all ? Compared::kAllPresets : Compared::kDefaultAndInference, described, ranges));
    }
    MEZZO_RETURN_IF_ERROR(write(*converted.model, described));
    for (const std::string& warning : described.records.warnings)
      std::fprintf(stderr, "warning: %s\n", warning.c_str());
    if (table) std::printf("%s", report_text(described).c_str());
    if (!quiet) {
      std::printf("%s\nwrote %s%s\n", report_totals(described).c_str(), output.c_str(),
                  report.empty() ? "" : (" and " + report).c_str());
    }
    return ok_status();
  }

 private:
  // -o may replace the model (export_model() guards its data), a report must not.
  Status check_reports(const std::vector<std::string>& data_files) const {
    std::vector<NamedFile> others = sources(model, data_files);
    others.push_back({"-o", output});
    if (!weights.empty()) {
      others.push_back({"--weights", weights});
      others.push_back({"--weights", weights + "/model.safetensors"});
    }
    for (const std::string& samples : calibrate) others.push_back({"--calibrate", samples});
    others.push_back({"the data of -o", output + ".data"});
    return expect_different({{"--report", report}, {"--json", json}}, std::move(others));
  }

  // All files or none: the others are finished under temporary names before the model appears.
  Status write(const Model& converted, const Report& described) const {
    std::optional<AtomicFile> page, data;
    if (!report.empty()) {
      MEZZO_ASSIGN_OR_RETURN(page, AtomicFile::create(report));
      MEZZO_RETURN_IF_ERROR(page->write(report_html(described)));
    }
    if (!json.empty()) {
      MEZZO_ASSIGN_OR_RETURN(data, AtomicFile::create(json));
      MEZZO_RETURN_IF_ERROR(data->write(report_json(described)));
    }
    if (page) MEZZO_RETURN_IF_ERROR(page->finish());
    if (data) MEZZO_RETURN_IF_ERROR(data->finish());
    MEZZO_RETURN_IF_ERROR(export_model(converted, output));
    if (page) MEZZO_RETURN_IF_ERROR(page->commit());
    if (data) MEZZO_RETURN_IF_ERROR(data->commit());
    return ok_status();
  }
};

}  // namespace

Work add_convert(CLI::App& app) {
  auto command = std::make_shared<ConvertCommand>();
  CLI::Option* model = app.add_option("model", command->model, "ONNX model, binary or text")
                           ->required()
                           ->type_name("MODEL");
  CLI::Option* output =
      app.add_option("-o,--output", command->output, "Where the converted model goes")
          ->required()
          ->type_name("FILE");
  CLI::Option* weights =
      app.add_option("--weights", command->weights,
                     "Take the weights of a training run, run/checkpoint or a safetensors file, "
                     "and the form for inference: normalisation by running statistics, no dropout")
          ->type_name("DIR|FILE");
  app.add_option("--report", command->report, "Also write the report as a web page")
      ->type_name("HTML")
      ->excludes(weights);
  app.add_option("--json", command->json, "Also write the report as JSON")->type_name("JSON");
  app.add_flag("--table", command->table, "Print a line per node");
  app.add_flag("-q,--quiet", command->quiet, "Print nothing but warnings and errors");
  command->policy.add_to(app, /*takes_fp32=*/false, /*has_io=*/true);
  app.add_flag("--compare-presets", command->compare_all,
               "Report what every preset would give; without it, with --report, what the default "
               "one and inference would")
      ->group("Precision")
      ->excludes(weights);
  app.add_flag_function(
         "--print-policy",
         [command, model, output](std::int64_t) {
           command->print_policy = true;
           model->required(false);  // asked for after this
           output->required(false);
         },
         "Print the policy in effect as a policy file, and convert nothing")
      ->group("Precision");
  app.option_defaults()->group("Calibration");
  repeatable(app.add_option("--calibrate", command->calibrate,
                            "Run the FP32 graph on these inputs first and keep in FP32 what comes "
                            "near the low type's limits: an npz by input name, or a folder of "
                            "input_K.pb; several samples along a first axis; repeatable"))
      ->type_name("NPZ|DIR")
      ->excludes(weights);
  command->threads.add_to(app);
  app.option_defaults()->group("Options");
  command->dump.add_to(app);
  return [command] { return command->run(); };
}

}  // namespace mezzo::cli
