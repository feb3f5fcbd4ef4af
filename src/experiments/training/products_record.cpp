#include "experiments/training/products_record.h"

#include "core/product_tuning.h"

namespace paceline {

namespace {

Row row_of(const TunedProduct& p) {
  constexpr double tera = 1e12;
  return {{"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"batch", p.batch},
          {"dtypes", p.dtypes},
          {"transposed", p.transposed},
          {"adds", p.adds},
          {"multiprocessors", std::int64_t{p.multiprocessors}},
          {"algorithm", p.algorithm},
          {"source", p.source},
          {"candidates", std::int64_t{p.candidates}},
          {"first", p.first_seconds},
          {"chosen", p.seconds},
          {"tflops_per_s", p.flops() / p.seconds / tera}};
}

}  // namespace

void add_products(CaseRecord& record, World& world, TrainingStep& step) {
  const ProductTuning* tuning = step.ops().product_tuning();
  if (tuning == nullptr) return;
  const double slowest = world.max(tuning->seconds());
  if (world.rank() != 0) return;
  TableRows products("products");
  for (const TunedProduct& product : tuning->products()) products.add(row_of(product));
  if (!products.empty()) record.tables.push_back(products.take());
  record.add("tuning_s", slowest);
}

}  // namespace paceline
