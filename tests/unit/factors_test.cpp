// Cases from declared factors: axes, folding, recorded values, presets.

#include <gtest/gtest.h>

#include "experiments/attention/attention.h"
#include "harness/factor_options.h"
#include "registry.h"

namespace paceline {
namespace {

enum class Shape3 : std::uint8_t { line, square, cube };

constexpr auto names_of(Shape3) { return names("line", "square", "cube"); }

struct Box {
  Shape3 shape = Shape3::line;
  int width = 1;
  double height = 2.5;
  std::string label = "plain";
  bool open = false;

  [[nodiscard]] bool operator==(const Box&) const = default;
};

Factors<Box> box_factors() {
  return factors_of<Box>(
      axis<Box>(&Box::shape, "shape", "form"),
      axis<Box>(&Box::width, "box_width", "of a side").from(1, 9),
      axis<Box>(&Box::height, "height", "upwards")
          .from(0, 10)
          .by_default("1.5,2.5")
          .where([](const Box& b) { return b.shape == Shape3::cube; }, "--shape cube"),
      setting<Box>(&Box::label, "label", "on the lid").called("--name"),
      setting<Box>(&Box::open, "open", "at the top").implicit("yes"));
}

// Parses as the command line does.
struct Parsed {
  explicit Parsed(const std::vector<std::string>& arguments)
      : p("box", "Boxes."), options(box_factors()) {
    options.declare(p);
    GivenOptions given;
    (void)p.parse(arguments, given);
    options.finish(p);
  }
  [[nodiscard]] std::vector<Box> cases() const {
    return options.cases([](Box&) { return true; });
  }
  OptionParser p;
  FactorOptions<Box> options;
};

std::string options_refusal(const std::vector<std::string>& arguments) {
  try {
    (void)Parsed(arguments).cases();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Factors, AxesMultiplyAndLaterOnesVaryFaster) {
  const auto cases = Parsed({"--shape", "cube,line", "--box-width", "3,2"}).cases();
  std::vector<std::tuple<Shape3, int, double>> got;
  for (const Box& b : cases) got.emplace_back(b.shape, b.width, b.height);
  // The height of boxes other than cubes is folded.
  const std::vector<std::tuple<Shape3, int, double>> want = {
      {Shape3::cube, 3, 1.5}, {Shape3::cube, 3, 2.5}, {Shape3::cube, 2, 1.5},
      {Shape3::cube, 2, 2.5}, {Shape3::line, 3, 2.5}, {Shape3::line, 2, 2.5}};
  EXPECT_EQ(got, want);
}

struct Point {
  int x = 0;
  int y = 0;

  [[nodiscard]] bool operator==(const Point& other) const {
    ++comparisons;
    return x == other.x && y == other.y;
  }
  static inline int comparisons = 0;
};

TEST(Factors, FoldingComparesFewPairsOfCases) {
  const Factors<Point> factors = factors_of<Point>(
      axis<Point>(&Point::x, "x", ""),
      axis<Point>(&Point::y, "y", "").where([](const Point& p) { return p.x >= 20; }, "--x 20"));
  std::vector<Point> points;
  for (int i = 0; i < 4000; ++i) points.push_back({i / 100, i % 100});
  const std::vector<Point> unique = folded(factors, points, {});
  EXPECT_LE(Point::comparisons, 4000);
  ASSERT_EQ(unique.size(), 20U + 2000U);
  EXPECT_EQ(unique[19].x, 19);
  EXPECT_EQ(unique[20].y, 0);
  EXPECT_EQ(unique[21].y, 1);
}

TEST(Factors, OnlyApplicableFactorsAreRecorded) {
  const auto cases =
      Parsed({"--shape", "line,cube", "--height", "4", "--name", "a,b", "--open"}).cases();
  ASSERT_EQ(cases.size(), 2U);
  const Case line = recorded(box_factors(), cases[0]);
  EXPECT_FALSE(line.has("height"));
  EXPECT_EQ(line.at("shape"), Value(std::string("line")));
  EXPECT_EQ(line.at("box_width"), Value(std::int64_t{1}));
  EXPECT_EQ(line.at("label"), Value(std::string("a,b")));  // a setting takes the whole text
  EXPECT_EQ(line.at("open"), Value(true));
  EXPECT_EQ(recorded(box_factors(), cases[1]).at("height"), Value(4.0));
}

TEST(Factors, RangesExpandToValuesOfNumericAxes) {
  std::vector<int> widths;
  for (const Box& b : Parsed({"--box-width", "1..8*2,3..5"}).cases()) widths.push_back(b.width);
  EXPECT_EQ(widths, (std::vector<int>{1, 2, 4, 8, 3, 5}));
  const auto cubes = Parsed({"--shape", "cube", "--height", "1..2+0.5"}).cases();
  ASSERT_EQ(cubes.size(), 3U);
  EXPECT_EQ(cubes[1].height, 1.5);
  EXPECT_EQ(Parsed({"--name", "1..5"}).cases().at(0).label, "1..5");
  EXPECT_EQ(options_refusal({"--box-width", "1..10"}),
            "--box-width: 10 is out of range; use 1 to 9");
}

TEST(Factors, TooManyCasesAreRefused) {
  const std::string message = options_refusal(
      {"--shape", "cube", "--box-width", "1..9", "--height", "0..9.999+0.001,0..9.999+0.001"});
  EXPECT_EQ(message, "--height: its 20000 values make more than 100000 cases; give fewer");
}

TEST(Factors, EqualValuesAreOneCase) {
  EXPECT_EQ(Parsed({"--box-width", "2,3,2"}).cases().size(), 2U);
}

TEST(Factors, ErrorsNameTheOption) {
  EXPECT_EQ(options_refusal({"--shape", "ball"}),
            "--shape: 'ball' is unknown; choose line, square, cube");
  EXPECT_EQ(options_refusal({"--shape", "cub"}),
            "--shape: 'cub' is unknown; choose line, square, cube (did you mean cube?)");
  EXPECT_EQ(options_refusal({"--hieght", "1"}),
            "--hieght: unknown option of 'box'; see paceline box --help (did you mean --height?)");
  EXPECT_EQ(options_refusal({"--box-width", "10"}), "--box-width: 10 is out of range; use 1 to 9");
  EXPECT_EQ(options_refusal({"--box-width", "1,,2"}), "--box-width: has an empty value");
  EXPECT_EQ(options_refusal({"--name", "a", "--name", "b"}), "--name: takes one value");
  EXPECT_EQ(options_refusal({"--open=maybe"}), "--open: 'maybe' is unknown; choose no, yes");
}

TEST(Factors, AnOptionThatAppliesToNoCaseIsRefused) {
  EXPECT_EQ(options_refusal({"--shape", "line,square", "--height", "1"}),
            "--height: applies to no case here; it goes with --shape cube");
  EXPECT_EQ(options_refusal({"--shape", "line,cube", "--height", "1"}), "");
}

TEST(Factors, ACaseThatTheLaunchCannotRunIsLeftOut) {
  const Parsed parsed({"--box-width", "1,2,3"});
  const auto cases = parsed.options.cases([](Box& b) {
    b.label = "seen";
    return b.width != 2;
  });
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[1].width, 3);
  EXPECT_EQ(cases[1].label, "seen");
}

TEST(Factors, TheHelpSaysValuesAndDefaults) {
  const std::string help = Parsed({}).p.help();
  for (const char* line : {"form (line square cube, a,b) [line]", "(a,b, a..b) [1.5,2.5]",
                           "[plain]", "(no yes) [no]"}) {
    EXPECT_NE(help.find(line), std::string::npos) << line << " in\n" << help;
  }
}

// For every precision and attention, on this device.
template <class F>
std::vector<std::string> values_of(const F& value, DeviceKind device) {
  FactorOptions<AttentionCase> options(attention_case_factors());
  options.replace("--precision", "fp32,tf32,bf16,fp16");
  options.replace("--attention", "naive,flash");
  options.replace("--fp32-attention", "exact,bf16x3");
  options.replace("--flash-kernels", "newest,sm80");
  std::vector<std::string> values;
  for (const AttentionCase& c : options.cases([&](AttentionCase& completed) {
         completed.device = device;
         return true;
       })) {
    const Case r = recorded(options.factors(), c);
    if (!r.has(value)) continue;
    EXPECT_EQ(c.attention, AttentionKind::flash);
    const std::string text = std::string(c.precision.name) + " " + to_text(r.at(value));
    if (values.empty() || values.back() != text) values.push_back(text);
  }
  return values;
}

TEST(AttentionCase, Fp32AttentionAppliesOnlyToFlashInFp32) {
  EXPECT_EQ(values_of("fp32_attention", DeviceKind::cpu),
            (std::vector<std::string>{"fp32 exact", "fp32 bf16x3"}));
  AttentionCase c;
  c.precision = precision_named("tf32");
  EXPECT_EQ(ops_config_of(c).fp32_attention, Fp32Attention::tf32);
  c.precision = precision_named("fp32");
  c.fp32_attention = Fp32Attention::exact;
  EXPECT_EQ(ops_config_of(c).fp32_attention, Fp32Attention::exact);
}

TEST(AttentionCase, FlashKernelsAppliesOnlyToFlashInHalfTypesAndBf16x3OnAGpu) {
  EXPECT_TRUE(values_of("flash_kernels", DeviceKind::cpu).empty());
  EXPECT_EQ(values_of("flash_kernels", DeviceKind::cuda),
            (std::vector<std::string>{"fp32 newest", "fp32 sm80", "bf16 newest", "bf16 sm80",
                                      "fp16 newest", "fp16 sm80"}));
}

// Each command checks its presets when it declares its options.
TEST(Presets, PinEveryFactor) {
  int with_presets = 0;
  for (const Registration& r : registry()) {
    const std::unique_ptr<Command> command = r.make();
    OptionParser p(std::string(r.name), "");
    EXPECT_NO_THROW(command->declare(p)) << r.name;
    with_presets += p.help().find("--preset") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(with_presets, 7);  // model, attention, ddp, zero, collectives, precision, plan
}

// Each shape has a factor of its own; the values of the two factors are not multiplied.
struct Studied {
  Shape3 shape = Shape3::line;
  int length = 1;
  int area = 1;

  [[nodiscard]] bool operator==(const Studied&) const = default;
};

TEST(Factors, AFactorMultipliesOnlyTheCasesToWhichItApplies) {
  const auto only = [](Factor<Studied> f, bool (*condition)(const Studied&)) {
    return f.from(0, 1e6).only_where(condition, "--shape");
  };
  const Factors<Studied> factors = factors_of<Studied>(
      axis<Studied>(&Studied::shape, "shape", "form").by_default("line,square,cube"),
      only(axis<Studied>(&Studied::length, "length", "").by_default("1..2000"),
           [](const Studied& s) { return s.shape == Shape3::line; }),
      only(axis<Studied>(&Studied::area, "area", "").by_default("1..3000"),
           [](const Studied& s) { return s.shape == Shape3::square; }));
  const FactorOptions<Studied> options(factors);
  EXPECT_EQ(options.cases([](Studied&) { return true; }).size(), 2000U + 3000U + 1U);
}

}  // namespace
}  // namespace paceline
