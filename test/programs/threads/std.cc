/* Threads of C++: std::thread, mutexes, condition variables, futures, exceptions across threads. */
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>
thread_local int own = 3;
int main() {
  std::mutex mutex;
  std::condition_variable ready;
  std::atomic<int> done{0};
  std::once_flag flag;
  int sum = 0, once = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&, i] {
      std::call_once(flag, [&] { once++; });
      own += i;
      for (int k = 0; k < 1000; k++) {
        std::lock_guard<std::mutex> lock(mutex);
        sum += i;
      }
      done++;
      ready.notify_all();
    });
  {
    std::unique_lock<std::mutex> lock(mutex);
    ready.wait(lock, [&] { return done == 4; });
  }
  for (auto &each : threads) each.join();
  auto throws = std::async(std::launch::async, []() -> int { throw std::runtime_error("far"); });
  try {
    throws.get();
  } catch (const std::exception &e) {
    std::printf("caught %s\n", e.what());
  }
  auto later = std::async(std::launch::async, [](int x) { return own * x; }, 7);
  std::printf("%d %d %d %d\n", sum, once, own, later.get());
  return 5;
}
