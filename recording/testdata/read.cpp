/* Prints the fragments of recordings, and what is damaged, as read.py does. */
#include "ringlet_recording.hpp"
#include <cstdio>
#include <cstdlib>

static unsigned long adler32(const std::uint8_t *p, std::size_t n) {
    unsigned long a = 1, b = 0;
    for (; n; p++, n--)
        b = (b + (a = (a + *p) % 65521)) % 65521;
    return b << 16 | a;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        std::string path = argv[i];
        std::printf("= %s\n", argv[i]);
        bool sound = path.size() > 6 && path.substr(path.size() - 6) == ".sound";
        auto tell = [](const ringlet::Damaged &d) { std::printf("damaged %s\n", d.what()); };
        ringlet::Recording run(path, tell, true);
        std::uint64_t last = 0, count = 0;
        run.each([&](std::uint64_t event, const std::vector<ringlet::Fragment> &fragments) {
            if (event < last || (sound && count && event == last))
                std::puts("not in order");
            last = event;
            count++;
            for (const auto &f : fragments) {
                std::printf("%llu %u %u %u %zu %lu", static_cast<unsigned long long>(f.event), unsigned(f.source),
                            unsigned(f.type), unsigned(f.version), f.size, adler32(f.data, f.size));
                if (f.trigger != f.no_word)
                    std::printf(" trigger %llu", static_cast<unsigned long long>(f.trigger));
                if (f.stamp != f.no_word)
                    std::printf(" stamp %llu", static_cast<unsigned long long>(f.stamp));
                std::puts("");
            }
        });
        if (sound)
            std::printf("by number [%zu, %zu, %zu] %s\n", run.event(0).size(), run.event(last / 2).size(),
                        run.event(last).size(), count == run.size() ? "True" : "False");
    }
}
