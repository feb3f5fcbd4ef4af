#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/enum_names.h"
#include "core/text.h"
#include "harness/command.h"
#include "record/environment.h"

namespace paceline {

namespace {

std::string overview(std::span<const Registration> commands) {
  std::string text =
      "paceline measures how language models train, on every rank of an MPI launch.\n\n"
      "usage: paceline EXPERIMENT [options]        mpirun -np N paceline EXPERIMENT [options]\n\n";
  for (const Registration& r : commands) text += fmt::format("  {:<12} {}\n", r.name, r.summary);
  return text +
         "\npaceline EXPERIMENT --help lists the options of one. Options of the kind \"a,b\" are "
         "axes: the cases\nare the product of all of them. Numbers take ranges too: "
         "128..65536*2, 64..512+64, 1..5.\n";
}

// $'a\xff': UTF-8, whatever the bytes of the word.
std::string escaped(std::string_view word) {
  std::string text = "$'";
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      if (c == '\'' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text + "'";
}

std::string quoted(const std::string& word) {
  if (!is_utf8(word)) return escaped(word);
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_@%+=:,./-") == std::string::npos;
  if (plain) return word;
  std::string q = "'";
  for (const char c : word) q += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return q + "'";
}

const Registration& registered(std::span<const Registration> commands, const std::string& name) {
  const auto it = std::ranges::find(commands, name, &Registration::name);
  if (it != commands.end()) return *it;
  std::vector<std::string_view> names;
  for (const Registration& r : commands) names.push_back(r.name);
  throw UsageError(fmt::format("'{}' is not an experiment; choose {}{}", name,
                               fmt::join(names, ", "), did_you_mean(name, names)));
}

}  // namespace

Error with_preset(const Error& error, const ParsedCommand& parsed) {
  const std::string_view text = error.what();
  const auto option = parsed.of_preset.find(std::string(text.substr(0, text.find(':'))));
  if (option == parsed.of_preset.end()) return error;
  const auto& [name, value] = *option;
  return {error.code(), fmt::format("{} (--preset {} has {} {})", text, parsed.given.at("--preset"),
                                    name, value)};
}

ParsedCommand parse_command_line(std::span<const Registration> commands, int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) throw UsageError("no experiment; see paceline --help");
  ParsedCommand parsed;
  parsed.name = arguments.front();
  for (int i = 0; i < argc; ++i)
    parsed.line += fmt::format("{}{}", i > 0 ? " " : "", quoted(argv[i]));
  if (parsed.name == "--help" || parsed.name == "-h") {
    parsed.answer = overview(commands);
    return parsed;
  }
  if (parsed.name == "--version") {
    parsed.answer = fmt::format("paceline {}\n", software_version());
    return parsed;
  }
  const Registration& registration = registered(commands, parsed.name);
  parsed.command = registration.make();
  OptionParser p(parsed.name, std::string(registration.summary));
  parsed.command->declare(p);
  if (p.parse({arguments.begin() + 1, arguments.end()}, parsed.given)) {
    parsed.of_preset = p.of_preset();
    try {
      parsed.command->check(p);
    } catch (const Error& error) {
      throw with_preset(error, parsed);
    }
    if (!p.asks_for_file()) return parsed;
    parsed.answer = p.as_file();
    parsed.name += " --print-config";
  } else {
    parsed.answer = p.help();
    parsed.name += " --help";
  }
  parsed.command.reset();
  return parsed;
}

}  // namespace paceline
