/* Reads recordings without conversion, in C++17: views of the mapped files, no copies. docs/analysis.md has an example;
 * docs/format describes the bytes: recording.md (index), mep.md, mfp.md, mdf.md. Linux, little-endian; no library.
 *
 *     ringlet::Recording run("out/run-000001");
 *     run.each([](std::uint64_t event, const std::vector<ringlet::Fragment> &fragments) { ... });
 *
 * A program that cuts a file while it is mapped ends the reader by SIGBUS, as with every mapped file; Ringlet cuts no
 * closed segment. Compressed MDF records are not read: convert them.
 */
#ifndef RINGLET_RECORDING_HPP
#define RINGLET_RECORDING_HPP

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ringlet {

/* A file is not as its format says: path, and offset in bytes from its start. */
struct Damaged : std::runtime_error {
    Damaged(const std::string &file, std::uint64_t at, const std::string &what)
        : std::runtime_error(file + ", at byte " + std::to_string(at) + ": " + what), path(file), offset(at) {}
    std::string path;
    std::uint64_t offset;
};

/* A fragment of one source, or a raw bank: data points into the mapped file, while the Recording lives; those of a chain
 * of banks, which is joined, live as long as the Fragment and its copies. */
struct Fragment {
    std::uint64_t event;
    std::uint16_t source;
    std::uint8_t type, version;
    const std::uint8_t *data;
    std::size_t size;
    static constexpr std::uint64_t no_word = ~std::uint64_t(0);
    std::uint64_t trigger = no_word, stamp = no_word; /* its trigger number; its time, ns since 1970; or no_word */
    std::shared_ptr<const std::vector<std::uint8_t>> joined{}; /* data of a chain */
    bool missing() const { return type == 92; } /* it did not come: this marks its place */
};

namespace detail {

template <class T> T load(const std::uint8_t *p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline std::uint64_t pad4(std::uint64_t n) { return (n + 3) & ~std::uint64_t(3); }

/* CRC-32C of n bytes behind bytes with the checksum before, eight at a time. */
inline std::uint32_t crc32c(const std::uint8_t *p, std::size_t n, std::uint32_t before = 0) {
    static const auto table = [] {
        std::array<std::array<std::uint32_t, 256>, 8> t{};
        for (std::uint32_t i = 0; i < 256; i++) {
            std::uint32_t c = i;
            for (int k = 0; k < 8; k++)
                c = c & 1 ? c >> 1 ^ 0x82F63B78U : c >> 1;
            t[0][i] = c;
        }
        for (std::size_t k = 1; k < 8; k++)
            for (std::size_t i = 0; i < 256; i++)
                t[k][i] = t[0][t[k - 1][i] & 255] ^ t[k - 1][i] >> 8;
        return t;
    }();
    std::uint32_t c = ~before;
    for (; n >= 8; p += 8, n -= 8) {
        std::uint32_t a = load<std::uint32_t>(p) ^ c, b = load<std::uint32_t>(p + 4);
        c = table[7][a & 255] ^ table[6][a >> 8 & 255] ^ table[5][a >> 16 & 255] ^ table[4][a >> 24] ^
            table[3][b & 255] ^ table[2][b >> 8 & 255] ^ table[1][b >> 16 & 255] ^ table[0][b >> 24];
    }
    for (; n; p++, n--)
        c = table[0][(c ^ *p) & 255] ^ c >> 8;
    return ~c;
}

/* A file, mapped while the object lives. A link, a pipe or a device is refused. */
class File {
  public:
    explicit File(const std::string &name) : path(name) {
        int fd = ::open(name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            throw Damaged(name, 0, std::string("it cannot be opened: ") + std::strerror(errno));
        struct stat st {};
        bool plain = ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
        void *at = nullptr;
        if (plain && st.st_size > 0)
            at = ::mmap(nullptr, std::size_t(st.st_size), PROT_READ, MAP_SHARED, fd, 0);
        ::close(fd);
        if (!plain || at == MAP_FAILED)
            throw Damaged(name, 0, plain ? "it cannot be mapped" : "it is not a plain file");
        data = static_cast<const std::uint8_t *>(at);
        size = std::size_t(st.st_size);
    }
    File(File &&o) noexcept
        : path(std::move(o.path)), data(std::exchange(o.data, nullptr)), size(std::exchange(o.size, 0)) {}
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    File &operator=(File &&) = delete;
    ~File() {
        if (data)
            ::munmap(const_cast<std::uint8_t *>(data), size);
    }
    std::string path;
    const std::uint8_t *data = nullptr;
    std::size_t size = 0;
};

/* The base of a segment's name, bu0-00001 of bu0-00001.mep.open; empty: it is no name of a segment. */
inline std::string segment_base(const std::string &name) {
    std::size_t i = 2, dash;
    auto digits = [&] {
        std::size_t from = i;
        while (i < name.size() && std::isdigit(static_cast<unsigned char>(name[i])))
            i++;
        return i - from;
    };
    if (name.compare(0, 2, "bu") != 0 || !digits() || i >= name.size() || name[i] != '-')
        return "";
    dash = i++;
    if (digits() < 5 || dash + 6 > name.size())
        return "";
    std::string rest = name.substr(i);
    for (const char *known : {".mep", ".mdf", ".mfp", ".mep.open", ".mdf.open", ".mfp.open"})
        if (rest == known)
            return name.substr(0, i);
    return "";
}

struct MFP {
    std::uint64_t first, size, header;
    const std::uint8_t *data, *sizes;
    std::uint32_t n;
    std::uint16_t source;
    std::uint8_t align, version;
    bool wide, worded;
    std::uint64_t word(std::uint32_t i, int k) const {
        return worded ? load<std::uint64_t>(data + header - 16 * std::size_t(n - i) + 8 * k) : Fragment::no_word;
    }
    std::uint64_t fragment(std::uint32_t i) const {
        return wide ? load<std::uint32_t>(sizes + 4 * std::size_t(i)) : load<std::uint16_t>(sizes + 2 * std::size_t(i));
    }
    std::uint64_t padded(std::uint32_t i) const { return ((fragment(i) + (1U << align) - 1) >> align) << align; }
};

} // namespace detail

/* The directory of a run, or one file of MEPs, MFPs or MDF records. Not for several threads at once. Of a run that was
 * merged, open the merged file. Errors are Damaged. */
class Recording {
  public:
    using Tell = std::function<void(const Damaged &)>;

    /* tell, where given, is told of each damage, and what it names is left out; else Damaged is thrown. check compares
     * the checksums of MEPs with the index. */
    explicit Recording(const std::string &path, Tell tell = {}, bool check = false)
        : tell_(std::move(tell)), check_(check) {
        std::error_code none;
        if (std::filesystem::is_directory(path, none))
            open_run(path);
        else
            guarded([&] { open_file(path, index_beside(path), false); });
        std::stable_sort(places_.begin(), places_.end(), [](const Place &a, const Place &b) {
            return a.mep != b.mep ? a.mep < b.mep : a.attempt > b.attempt;
        });
        if (indexed_)
            places_.erase(std::unique(places_.begin(), places_.end(),
                                      [](const Place &a, const Place &b) { return a.mep == b.mep; }),
                          places_.end());
        for (std::size_t i = 0; i < places_.size(); i++)
            if (places_[i].events > 0)
                by_first_.emplace(places_[i].first, i);
    }

    /* The number of events. */
    std::uint64_t size() const {
        std::uint64_t n = 0;
        for (const Place &p : places_)
            n += p.events;
        return n;
    }

    /* Calls f(number, fragments) for each event in order, each once: of copies of a MEP that of the highest attempt */
    template <class F> void each(F f) {
        for (const Place &p : places_) {
            std::vector<std::vector<Fragment>> events;
            if (!guarded([&] { events = read(p); }))
                continue;
            for (std::size_t i = 0; i < events.size(); i++)
                f(p.first + i, static_cast<const std::vector<Fragment> &>(events[i]));
        }
    }

    /* The fragments of the event with a number; std::out_of_range: there is no such event. Damaged is thrown. */
    std::vector<Fragment> event(std::uint64_t number) const {
        auto after = by_first_.upper_bound(number);
        if (after == by_first_.begin())
            throw std::out_of_range("event " + std::to_string(number));
        const Place &p = places_[std::prev(after)->second];
        if (number - p.first >= p.events)
            throw std::out_of_range("event " + std::to_string(number));
        return read(p)[number - p.first];
    }

  private:
    enum class Format : std::uint32_t { none = 0, mep = 1, mdf = 2, mfp = 3 };
    struct Place {
        std::uint64_t mep, first, offset, length;
        std::uint32_t events, attempt, crc, before;
        bool proven;
        std::size_t file;
    };

    template <class F> bool guarded(F f) {
        try {
            f();
            return true;
        } catch (const Damaged &error) {
            if (!tell_)
                throw;
            tell_(error);
            return false;
        }
    }

    void told(const std::string &path, std::uint64_t at, const std::string &what) {
        guarded([&] { throw Damaged(path, at, what); });
    }

    static std::string index_beside(const std::string &path) {
        std::filesystem::path p(path);
        std::string base = detail::segment_base(p.filename().string());
        std::string own = base.empty() ? "" : (p.parent_path() / (base + ".idx")).string();
        std::error_code none;
        for (const std::string &name : {own, path + ".idx"})
            if (!name.empty() && std::filesystem::exists(name, none))
                return name;
        return "";
    }

    /* Reads the directory of a run. Of the manifest it takes the key, and the names of closed segments. */
    void open_run(const std::string &dir) {
        std::string manifest = (std::filesystem::path(dir) / "run.json").string();
        std::vector<std::string> names, listed;
        if (!guarded([&] { listed = read_manifest(manifest); }))
            return;
        std::error_code error;
        std::filesystem::directory_iterator entry(dir, error);
        for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
            if (!detail::segment_base(entry->path().filename().string()).empty())
                names.push_back(entry->path().filename().string());
        if (error)
            told(dir, 0, "it cannot be read: " + error.message());
        std::sort(names.begin(), names.end());
        auto in = [&](const std::string &name) { return (std::filesystem::path(dir) / name).string(); };
        for (const std::string &name : listed)
            if (!std::binary_search(names.begin(), names.end(), name))
                told(in(name), 0, "the manifest lists it: it is missing");
        for (const std::string &name : names)
            guarded([&] { open_file(in(name), in(detail::segment_base(name) + ".idx"), name.back() == 'n'); });
    }

    std::vector<std::string> read_manifest(const std::string &path) {
        detail::File file(path);
        if (file.size > (64U << 20))
            throw Damaged(path, 0, "it has more than 64 MiB");
        std::string text(reinterpret_cast<const char *>(file.data), file.size), before;
        std::vector<std::string> names;
        for (std::size_t at = text.find('"'); at != std::string::npos;) {
            std::size_t end = text.find('"', at + 1);
            if (end == std::string::npos)
                break;
            std::string word = text.substr(at + 1, end - at - 1);
            if (before == "key" && key_.empty())
                for (std::size_t i = 0; i + 2 <= word.size() && i < 32; i += 2)
                    key_.push_back(char(std::strtoul(word.substr(i, 2).c_str(), nullptr, 16)));
            if (before == "name" && !detail::segment_base(word).empty() && word.back() != 'n')
                names.push_back(word);
            before = word;
            at = text.find('"', end + 1);
        }
        if (key_.size() != 16)
            throw Damaged(path, 0, "it is not the manifest of a run");
        return names;
    }

    void open_file(const std::string &path, const std::string &index, bool is_open) {
        detail::File file(path);
        std::size_t number = files_.size(), from = places_.size();
        if (index.empty())
            scan(file);
        else
            read_index(index, file, is_open);
        for (std::size_t i = from; i < places_.size(); i++)
            places_[i].file = number;
        files_.push_back(std::move(file));
    }

    void take_format(const std::string &path, Format f) {
        if (f == Format::none || f > Format::mfp || (format_ != Format::none && format_ != f))
            throw Damaged(path, 0, "its data are of no known format, or of another one than the rest of the run");
        format_ = f;
    }

    void read_index(const std::string &path, const detail::File &file, bool is_open) {
        using detail::load;
        detail::File x(path);
        if (x.size < 64 || std::memcmp(x.data, "RNGLIDX2", 8) != 0 || load<std::uint32_t>(x.data + 8) != 2 ||
            detail::crc32c(x.data, 60) != load<std::uint32_t>(x.data + 60))
            throw Damaged(path, 0, "it is not the header of an index of version 2, or its checksum is wrong");
        std::string key(reinterpret_cast<const char *>(x.data) + 32, 16);
        if (!key_.empty() && key != key_)
            throw Damaged(path, 32, "it is the index of another run");
        key_ = key;
        take_format(path, Format(load<std::uint32_t>(x.data + 12)));
        indexed_ = true;
        std::uint64_t end = 0;
        std::uint32_t before = 0;
        bool gap = false;
        std::size_t n = (x.size - 64) / 48;
        if ((x.size - 64) % 48 && !is_open)
            told(path, 64 + 48 * n, "bytes follow the last whole entry");
        for (std::size_t i = 0; i < n; i++) {
            const std::uint8_t *e = x.data + 64 + 48 * i;
            Place p{load<std::uint64_t>(e), load<std::uint64_t>(e + 8), load<std::uint64_t>(e + 16),
                    load<std::uint64_t>(e + 24), load<std::uint32_t>(e + 32), load<std::uint32_t>(e + 36),
                    load<std::uint32_t>(e + 40), before, false, 0};
            std::string what;
            if (detail::crc32c(e, 44) != load<std::uint32_t>(e + 44))
                what = "the checksum of the entry is wrong";
            else if (p.length == 0 || p.mep >= std::uint64_t(1) << 40 || p.events > 65535 ||
                     p.first > ~std::uint64_t(0) - p.events)
                what = "no MEP can be so";
            else if (p.offset < end || (p.offset > end && !gap))
                what = "the MEP does not begin where the one before it ends";
            else if (p.offset > file.size || p.length > file.size - p.offset) {
                if (is_open)
                    return;
                what = "the MEP ends behind the data";
            }
            gap = !what.empty();
            if (gap && !(is_open && i + 1 == n))
                told(path, 64 + 48 * i, what);
            if (gap)
                continue;
            p.proven = p.offset == end;
            end = p.offset + p.length;
            before = p.crc;
            places_.push_back(p);
        }
        if (!is_open && end != file.size)
            told(file.path, end, "bytes follow the last MEP of the index");
    }

    /* Finds the units of a file without an index; events of MDF are numbered from 0. */
    void scan(const detail::File &file) {
        using detail::load;
        Format f = Format::none;
        std::uint16_t magic = file.size >= 12 ? load<std::uint16_t>(file.data) : 0;
        if (magic == 0xCEFA)
            f = Format::mep;
        else if (magic == 0x40CE || magic == 0x40CF || magic == 0x40D0)
            f = Format::mfp;
        if (file.size >= 12 && std::memcmp(file.data, file.data + 4, 8) == 0)
            f = Format::mdf;
        if (file.size == 0)
            return;
        take_format(file.path, f);
        std::uint64_t at = 0, n = 0;
        guarded([&] {
            for (; at < file.size; n++) {
                Place p{n, n, at, 0, 1, 1, 0, 0, false, 0};
                if (f == Format::mdf)
                    p.length = record(file, at, file.size).first;
                else {
                    auto mfps = f == Format::mep ? mep(file, at, file.size, p.length)
                                                 : group(file, at, file.size, p.length);
                    p.first = mfps.empty() ? 0 : mfps[0].first;
                    p.events = mfps.empty() ? 0 : mfps[0].n;
                }
                places_.push_back(p);
                at += p.length;
            }
        });
    }

    /* The MFP at a byte, which ends before end. */
    static detail::MFP mfp(const detail::File &file, std::uint64_t at, std::uint64_t end) {
        using detail::load;
        const std::uint8_t *b = file.data + at;
        std::uint64_t room = end - at;
        if (room < 20)
            throw Damaged(file.path, at, "the header of an MFP has 20 bytes, " + std::to_string(room) + " are left");
        detail::MFP p{};
        std::uint16_t magic = load<std::uint16_t>(b);
        p.worded = magic == 0x40D0;
        p.wide = p.worded || magic == 0x40CF;
        p.n = load<std::uint16_t>(b + 2);
        p.size = load<std::uint32_t>(b + 4);
        p.first = load<std::uint64_t>(b + 8);
        p.source = load<std::uint16_t>(b + 16);
        p.align = b[18];
        p.version = b[19];
        p.data = b;
        std::uint64_t table = 20 + detail::pad4(p.n);
        p.header = table + detail::pad4(p.wide ? 4 * std::uint64_t(p.n) : 2 * std::uint64_t(p.n)) +
                   (p.worded ? 16 * std::uint64_t(p.n) : 0);
        if ((magic != 0x40CE && !p.wide) || p.align > 16)
            throw Damaged(file.path, at, "it is not the header of an MFP");
        if (p.size < p.header || p.size > room || p.n > ~std::uint64_t(0) - p.first)
            throw Damaged(file.path, at + 4,
                          "the MFP has " + std::to_string(p.size) + " bytes, its header " + std::to_string(p.header) +
                              ", and " + std::to_string(room) + " are left");
        p.sizes = b + table;
        std::uint64_t sum = p.header;
        for (std::uint32_t i = 0; i < p.n; i++) {
            if (p.fragment(i) > std::uint64_t(1) << 30)
                throw Damaged(file.path, at + table, "a fragment has more than 2^30 bytes");
            sum += p.padded(i);
        }
        if (sum != p.size)
            throw Damaged(file.path, at + 4, "the MFP has " + std::to_string(p.size) + " bytes, its tables say " +
                                                 std::to_string(sum));
        return p;
    }

    static void same_events(const detail::File &file, std::uint64_t at, const std::vector<detail::MFP> &mfps,
                            const detail::MFP &p) {
        if (!mfps.empty() && (p.first != mfps[0].first || p.n != mfps[0].n))
            throw Damaged(file.path, at, "source " + std::to_string(p.source) + " has other events than the first one");
    }

    /* The MFPs of the MEP at a byte, and its length. */
    static std::vector<detail::MFP> mep(const detail::File &file, std::uint64_t at, std::uint64_t end,
                                        std::uint64_t &length) {
        using detail::load;
        const std::uint8_t *b = file.data + at;
        std::uint64_t room = end - at;
        if (room < 8 || load<std::uint16_t>(b) != 0xCEFA)
            throw Damaged(file.path, at, "it is not the header of a MEP");
        std::uint64_t m = load<std::uint16_t>(b + 2), size = 4 * std::uint64_t(load<std::uint32_t>(b + 4));
        std::uint64_t table = 8 + detail::pad4(2 * m), low = table + 4 * m;
        if (size < low || size > room)
            throw Damaged(file.path, at + 4, "the MEP has " + std::to_string(size) + " bytes, its header " +
                                                 std::to_string(low) + ", and " + std::to_string(room) + " are left");
        std::vector<detail::MFP> mfps;
        for (std::uint64_t i = 0; i < m; i++) {
            std::uint64_t from = 4 * std::uint64_t(load<std::uint32_t>(b + table + 4 * i));
            if (from < low || from > size)
                throw Damaged(file.path, at + table + 4 * i, "an MFP does not begin where it can");
            detail::MFP p = mfp(file, at + from, at + size);
            if (p.source != load<std::uint16_t>(b + 8 + 2 * i) || (i && p.source <= mfps.back().source))
                throw Damaged(file.path, at + 8 + 2 * i, "the table of sources is wrong");
            same_events(file, at + from, mfps, p);
            mfps.push_back(p);
            low = from + p.size;
        }
        length = size;
        return mfps;
    }

    /* The MFPs from a byte on that are of the same events, by ascending source, and their length. */
    static std::vector<detail::MFP> group(const detail::File &file, std::uint64_t at, std::uint64_t end,
                                          std::uint64_t &length) {
        std::vector<detail::MFP> mfps;
        std::uint64_t from = at;
        while (at < end) {
            detail::MFP p = mfp(file, at, end);
            if (!mfps.empty() && (p.first != mfps[0].first || p.n != mfps[0].n || p.source <= mfps.back().source))
                break;
            mfps.push_back(p);
            at += p.size;
        }
        length = at - from;
        return mfps;
    }

    /* The length of the MDF record at a byte, and where its banks begin in it. */
    static std::pair<std::uint64_t, std::uint64_t> record(const detail::File &file, std::uint64_t at,
                                                          std::uint64_t end) {
        using detail::load;
        const std::uint8_t *b = file.data + at;
        std::uint64_t room = end - at;
        if (room < 20 || std::memcmp(b, b + 4, 8) != 0)
            throw Damaged(file.path, at, "it is not the header of an MDF record, or its three sizes disagree");
        std::uint64_t size = load<std::uint32_t>(b), header = 20 + 4 * std::uint64_t(b[17] & 15);
        if (size < header || size > room || (b[17] >> 4 == 3 && header < 48))
            throw Damaged(file.path, at, "the record has " + std::to_string(size) + " bytes, its header " +
                                             std::to_string(header) + ", and " + std::to_string(room) + " are left");
        if ((b[16] & 15) || b[18] != 1)
            throw Damaged(file.path, at + 16,
                          "the record is compressed, or has no raw banks: ringlet-convert may read it");
        return {size, header};
    }

    /* The fragments of each event of a MEP, all of whose bytes are checked. */
    std::vector<std::vector<Fragment>> read(const Place &p) const {
        using detail::load;
        const detail::File &file = files_[p.file];
        std::uint64_t end = p.offset + p.length, length = 0;
        if (check_ && p.proven && detail::crc32c(file.data + p.offset, p.length, p.before) != p.crc)
            throw Damaged(file.path, p.offset, "the bytes of MEP " + std::to_string(p.mep) + " have been changed");
        std::vector<std::vector<Fragment>> events;
        if (format_ == Format::mdf) {
            std::uint64_t at = p.offset;
            for (std::uint64_t number = p.first; number < p.first + p.events; number++) {
                auto [size, header] = record(file, at, end);
                events.push_back(banks(file, at + header, at + size, number));
                at += size;
            }
            length = at - p.offset;
        } else {
            auto mfps = format_ == Format::mep ? mep(file, p.offset, end, length) : group(file, p.offset, end, length);
            if (!mfps.empty() && (mfps[0].first != p.first || mfps[0].n != p.events))
                throw Damaged(file.path, p.offset, "the MEP has other events than its entry says");
            events.resize(p.events);
            for (const detail::MFP &one : mfps) {
                std::uint64_t at = one.header;
                for (std::uint32_t i = 0; i < one.n; i++) {
                    events[i].push_back({p.first + i, one.source, one.data[20 + i], one.version, one.data + at,
                                         std::size_t(one.fragment(i)), one.word(i, 0), one.word(i, 1)});
                    at += one.padded(i);
                }
            }
        }
        if (length != p.length)
            throw Damaged(file.path, p.offset, "the MEP has " + std::to_string(length) + " bytes, its entry says " +
                                                   std::to_string(p.length));
        return events;
    }

    static std::vector<Fragment> banks(const detail::File &file, std::uint64_t at, std::uint64_t end,
                                       std::uint64_t event) {
        using detail::load;
        std::vector<Fragment> all;
        while (at < end) {
            const std::uint8_t *b = file.data + at;
            std::uint64_t length = end - at < 8 ? 0 : load<std::uint16_t>(b + 2);
            if (length < 8 || load<std::uint16_t>(b) != 0xCBCB || detail::pad4(length) > end - at)
                throw Damaged(file.path, at, "it is no raw bank, or it does not fit");
            if (b[4] == 242) {
                all.push_back(chain(file, at, end, event));
                continue;
            }
            all.push_back({event, load<std::uint16_t>(b + 6), b[4], b[5], b + 8, std::size_t(length - 8)});
            at += detail::pad4(length);
        }
        return all;
    }

    /* Joins the chain of banks that begins at a place, and moves the place behind it. */
    static Fragment chain(const detail::File &file, std::uint64_t &at, std::uint64_t end, std::uint64_t event) {
        using detail::load;
        const std::uint64_t begin = at;
        const std::uint8_t *b = file.data + at;
        const std::uint64_t size = end - at < 16 ? 0 : load<std::uint32_t>(b + 8);
        Fragment whole{event, load<std::uint16_t>(b + 6), 0, 0, nullptr, std::size_t(size)};
        auto data = std::make_shared<std::vector<std::uint8_t>>();
        const bool good = size > 65527 && size <= 1U << 30 && size <= end - at && load<std::uint16_t>(b + 14) == 0;
        if (good) {
            whole.type = b[12];
            whole.version = b[13];
            data->reserve(std::size_t(size));
        }
        for (std::uint64_t left = size + 8; good && left > 0;) {
            b = file.data + at;
            const bool first = at == begin;
            const std::uint64_t length = 8 + (left < 65524 ? left : 65524);
            if (end - at < detail::pad4(length) || load<std::uint16_t>(b) != 0xCBCB ||
                load<std::uint16_t>(b + 2) != length || b[4] != 242 || b[5] != (first ? 0 : 1) ||
                load<std::uint16_t>(b + 6) != whole.source)
                break;
            data->insert(data->end(), b + (first ? 16 : 8), b + length);
            left -= length - 8;
            at += detail::pad4(length);
        }
        if (!good || data->size() != size)
            throw Damaged(file.path, begin, "a chain of banks is not whole");
        whole.data = data->data();
        whole.joined = std::move(data);
        return whole;
    }

    Tell tell_;
    bool check_, indexed_ = false;
    Format format_ = Format::none;
    std::string key_;
    std::vector<detail::File> files_;
    std::vector<Place> places_;
    std::map<std::uint64_t, std::size_t> by_first_;
};

} // namespace ringlet

#endif
