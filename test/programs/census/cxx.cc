// Exceptions, streams, containers, threads of C++.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
struct Trace {
  std::string name;
  explicit Trace(std::string n) : name(std::move(n)) {}
  ~Trace() { std::cout << "-" << name; }
};
static int depth(int n) {
  Trace t(std::to_string(n));
  if (n == 0) throw std::runtime_error("bottom");
  return depth(n - 1) + 1;
}
int main() {
  try {
    depth(3);
  } catch (const std::exception &e) {
    std::cout << " caught " << e.what() << '\n';
  }
  std::map<std::string, double> m;
  for (int i = 0; i < 50; i++) m["k" + std::to_string(i * 37 % 50)] += i / 3.0;
  std::vector<double> v;
  for (auto &[k, x] : m) v.push_back(x);
  std::sort(v.begin(), v.end(), std::greater<>());
  std::ostringstream out;
  out.precision(10);
  out << v.front() << ' ' << v.back() << ' ' << m.at("k7");
  std::cout << out.str() << '\n';
  std::mutex lock;
  long sum = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; i++) {
        std::lock_guard<std::mutex> guard(lock);
        sum += t * i;
      }
    });
  for (auto &t : threads) t.join();
  try {
    m.at("none");
  } catch (const std::out_of_range &) {
    std::cout << sum << " out of range\n";
  }
  auto p = std::make_shared<std::string>("shared");
  std::weak_ptr<std::string> w = p;
  p.reset();
  std::cout << w.expired() << std::endl;
  return 6;
}
