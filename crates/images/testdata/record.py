"""Makes the pictures of this folder and records what they load as.

    python -m venv venv && venv/bin/pip install pillow==12.0.0 numpy && venv/bin/python record.py

Every picture is at most 2 KB. `pictures.json` holds, per picture, size and SHA-256 of the 8-bit samples of each frame that
LoadImage gives (image, then mask), and of the alpha that LoadImageMask gives.
"""
import hashlib, io, json, struct, zlib
from pathlib import Path
import numpy as np
from PIL import Image, ImageFile, ImageOps, ImageSequence, PngImagePlugin

FOLDER = Path(__file__).parent
FILES = {}


# --- what the two nodes do with a file ---

def lenient(step, argument):
    try:
        return step(argument)
    except (OSError, ValueError):
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        try:
            return step(argument)
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = False


def integers(frame):
    return frame.point(lambda v: v * (1 / 255)) if frame.mode == "I" else frame


def load_image(data):
    images, masks, first = [], [], None
    for frame in ImageSequence.Iterator(lenient(Image.open, io.BytesIO(data))):
        frame = integers(lenient(ImageOps.exif_transpose, frame))
        image = frame.convert("RGB")
        first = first or image.size
        if image.size != first:
            continue
        if "A" in frame.getbands():
            alpha = np.array(frame.getchannel("A"))
        elif frame.mode == "P" and "transparency" in frame.info:
            alpha = np.array(frame.convert("RGBA").getchannel("A"))
        else:
            alpha = np.full((64, 64), 255, np.uint8)
        images.append(np.array(image))
        masks.append(to_bytes(np.float32(1) - alpha.astype(np.float32) / np.float32(255)))
    return images, masks


def load_alpha(data):
    frame = lenient(ImageOps.exif_transpose, lenient(Image.open, io.BytesIO(data)))
    if frame.getbands() != ("R", "G", "B", "A"):
        frame = integers(frame).convert("RGBA")
    return to_bytes(np.float32(1) - np.array(frame.getchannel("A")).astype(np.float32) / np.float32(255))


def to_bytes(samples):
    return np.clip(np.float32(255) * samples, 0, 255).astype(np.uint8)


def described(samples):
    return [samples.shape[1], samples.shape[0], hashlib.sha256(samples.tobytes()).hexdigest()]


# --- material ---

def photo(width, height, seed=1):
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(seed).normal(0, 12, (height, width, 3))
    waves = [np.sin(x / 5 + seed), np.cos(y / 4), np.sin((x + y) / 7)]
    return Image.fromarray(np.clip(127 + 90 * np.stack(waves, -1) + noise, 0, 255).astype(np.uint8))


def with_alpha(width, height, seed=1):
    picture = photo(width, height, seed).convert("RGBA")
    y, x = np.mgrid[0:height, 0:width]
    picture.putalpha(Image.fromarray(((x * 37 + y * 91) % 256).astype(np.uint8)))
    return picture


def saved(picture, kind, **options):
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def keep(name, data):
    FILES[name] = data


# --- PNG, written by hand so that every colour type, depth and interlacing occurs ---

def chunk(name, data=b""):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def rows(samples, bits):
    """Packed rows of an array [height, width, channels], filter 0 before each."""
    out = b""
    for row in samples.reshape(samples.shape[0], -1):
        if bits == 16:
            packed = row.astype(">u2").tobytes()
        elif bits == 8:
            packed = row.astype(np.uint8).tobytes()
        else:
            spread = (row[:, None] >> np.arange(bits - 1, -1, -1)) & 1
            packed = np.packbits(spread.reshape(-1)).tobytes()
        out += b"\0" + packed
    return out


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png(samples, color, bits, extra=b"", interlaced=False, cut=None):
    height, width = samples.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, int(interlaced))
    passes = [samples[y::dy, x::dx] for x, y, dx, dy in ADAM7] if interlaced else [samples]
    data = zlib.compress(b"".join(rows(part, bits) for part in passes if part.size))
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", data[:cut]) + chunk(b"IEND")
    return file


def samples(width, height, channels, bits, seed=3):
    return np.random.default_rng(seed).integers(0, 1 << bits, (height, width, channels))


def pngs():
    palette = np.random.default_rng(9).integers(0, 256, 48).astype(np.uint8).tobytes()
    for color, depths, channels in [(0, (1, 2, 4, 8, 16), 1), (2, (8, 16), 3), (3, (1, 2, 4, 8), 1), (4, (8, 16), 2), (6, (8, 16), 4)]:
        for bits in depths:
            for interlaced in (False, True):
                values = samples(11, 9, channels, min(bits, 4) if color == 3 else bits)
                extra = chunk(b"PLTE", palette) if color == 3 else b""
                keep(f"png_{color}_{bits}{'_adam7' if interlaced else ''}.png", png(values, color, bits, extra, interlaced))
    plte = chunk(b"PLTE", palette)
    indices = samples(10, 6, 1, 4)
    keep("png_palette_trns_some.png", png(indices, 3, 4, plte + chunk(b"tRNS", bytes([0, 50, 255, 128]))))
    keep("png_palette_trns_one.png", png(indices, 3, 4, plte + chunk(b"tRNS", bytes([255, 255, 0]))))
    keep("png_palette_trns_opaque.png", png(indices, 3, 4, plte + chunk(b"tRNS", b"\xff\xff")))
    keep("png_palette_short.png", png(indices, 3, 4, chunk(b"PLTE", palette[:15])))
    keep("png_grey_trns.png", png(samples(9, 5, 1, 2), 0, 8, chunk(b"tRNS", struct.pack(">H", 2))))
    keep("png_grey2_trns.png", png(samples(9, 5, 1, 2), 0, 2, chunk(b"tRNS", struct.pack(">H", 2))))
    keep("png_grey1_trns.png", png(samples(9, 5, 1, 1), 0, 1, chunk(b"tRNS", struct.pack(">H", 0))))
    keep("png_grey16_trns.png", png(samples(9, 5, 1, 2) * 90, 0, 16, chunk(b"tRNS", struct.pack(">H", 90))))
    keep("png_rgb_trns.png", png(samples(9, 5, 3, 1), 2, 8, chunk(b"tRNS", struct.pack(">3H", 1, 0, 1))))
    keep("png_rgb16_trns.png", png(samples(9, 5, 3, 1) * 257, 2, 16, chunk(b"tRNS", struct.pack(">3H", 257, 0, 257))))
    whole = samples(12, 12, 3, 8)
    keep("png_cut.png", png(whole, 2, 8, cut=200))
    keep("png_cut_adam7.png", png(whole, 2, 8, interlaced=True, cut=230))
    keep("png_ends_early.png", png(whole, 2, 8)[:300])
    broken = bytearray(png(whole, 2, 8))
    broken[-13] ^= 255
    keep("png_checksum.png", bytes(broken))
    exif = Image.Exif()
    exif[274] = 6
    small = photo(8, 5)
    keep("png_exif.png", saved(small, "PNG", exif=exif))
    xmp = PngImagePlugin.PngInfo()
    xmp.add_itxt("XML:com.adobe.xmp", '<x tiff:Orientation="3"/>')
    keep("png_xmp.png", saved(small, "PNG", pnginfo=xmp))
    raw = PngImagePlugin.PngInfo()
    digits = exif.tobytes().hex()
    raw.add_text("Raw profile type exif", f"\nexif\n{len(digits) // 2:8}\n{digits}\n", zip=True)
    keep("png_raw_exif.png", saved(small, "PNG", pnginfo=raw))


def apngs():
    def frame(number, values, bits, color, place, dispose, blend, first):
        x, y = place
        height, width = values.shape[:2]
        control = struct.pack(">IIIIIHHBB", number, width, height, x, y, 1, 10, dispose, blend)
        data = zlib.compress(rows(values, bits))
        body = chunk(b"IDAT", data) if first else chunk(b"fdAT", struct.pack(">I", number + 1) + data)
        return chunk(b"fcTL", control) + body

    def animation(name, color, bits, channels, extra=b"", default=False, play=None):
        size = (9, 7)
        steps = [((0, 0), size, 0, 0), ((2, 1), (4, 3), 1, 1), ((0, 2), (5, 5), 2, 1), ((3, 0), (6, 4), 0, 0), ((1, 1), (3, 3), 2, 1), ((0, 0), size, 0, 1)]
        steps = steps[1:] if default else steps
        header = struct.pack(">IIBBBBB", *size, bits, color, 0, 0, 0)
        file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"acTL", struct.pack(">II", play or len(steps), 0)) + extra
        if default:
            file += chunk(b"IDAT", zlib.compress(rows(samples(*size, channels, bits, 50), bits)))
        number = 0
        for at, (place, (width, height), dispose, blend) in enumerate(steps):
            first = at == 0 and not default
            file += frame(number, samples(width, height, channels, bits, at), bits, color, place, dispose, blend, first)
            number += 1 if first else 2
        keep(name, file + chunk(b"IEND"))

    palette = chunk(b"PLTE", np.random.default_rng(9).integers(0, 256, 12).astype(np.uint8).tobytes())
    animation("apng_rgb.png", 2, 8, 3)
    animation("apng_rgba.png", 6, 8, 4)
    animation("apng_greya.png", 4, 8, 2)
    animation("apng_palette.png", 3, 2, 1, palette + chunk(b"tRNS", b"\0\xff\xff\x80"))
    animation("apng_key.png", 2, 8, 3, chunk(b"tRNS", struct.pack(">3H", 1, 2, 3)))
    animation("apng_default.png", 6, 8, 4, default=True)
    animation("apng_promises_more.png", 2, 8, 3, play=9)


# --- JPEG ---

def jpegs():
    def jpeg(name, picture, **options):
        keep(f"jpeg_{name}.jpg", saved(picture, "JPEG", **{"quality": 60, "optimize": True, **options}))

    for subsampling in ("4:4:4", "4:2:2", "4:2:0"):
        tag = subsampling.replace(":", "")
        for size in ((35, 27), (16, 16), (3, 3), (2, 5), (1, 1)):
            jpeg(f"{tag}_{size[0]}x{size[1]}", photo(*size), subsampling=subsampling)
        jpeg(f"{tag}_progressive", photo(29, 19), subsampling=subsampling, progressive=True)
        jpeg(f"{tag}_restart", photo(29, 19), subsampling=subsampling, restart_marker_blocks=1)
        jpeg(f"{tag}_q95", photo(18, 11), subsampling=subsampling, quality=95)
    jpeg("standard_tables", photo(20, 12), optimize=False)
    jpeg("coarse", photo(33, 25), quality=2)
    jpeg("grey", photo(21, 13).convert("L"))
    jpeg("grey_progressive", photo(21, 13).convert("L"), progressive=True)
    jpeg("rgb", photo(15, 10), keep_rgb=True)
    cmyk = Image.merge("CMYK", [*photo(15, 10).split(), photo(15, 10, 5).getchannel(0)])
    jpeg("cmyk", cmyk)
    ycck = bytearray(FILES["jpeg_cmyk.jpg"])
    ycck[ycck.index(b"Adobe") + 11] = 2
    keep("jpeg_ycck.jpg", bytes(ycck))
    # The same blocks read as halved downwards instead of across; and halved thrice, which is repeated, not smoothed.
    for name, size, factors in (("440", (16, 16), 0x12), ("411", (32, 16), 0x41)):
        jpeg(name, photo(*size), subsampling="4:2:2" if name == "440" else "4:2:0")
        file = bytearray(FILES[f"jpeg_{name}.jpg"])
        file[file.index(b"\xff\xc0") + 11] = factors
        keep(f"jpeg_{name}.jpg", bytes(file))
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[274] = orientation
        jpeg(f"exif_{orientation}", photo(13, 9), exif=exif)
    jpeg("xmp", photo(13, 9), xmp=b"<x><tiff:Orientation>8</tiff:Orientation></x>")
    for tag in ("420_35x27", "444_restart", "grey"):
        whole = FILES[f"jpeg_{tag}.jpg"]
        keep(f"jpeg_cut_{tag}.jpg", whole[: len(whole) * 4 // 5])


# --- GIF, by hand ---

def lzw(indices, bits):
    """Literal codes with a clear before the table grows."""
    size, out, acc, count = bits + 1, bytearray(), 0, 0
    def put(code):
        nonlocal acc, count
        acc |= code << count
        count += size
        while count >= 8:
            out.append(acc & 255)
            acc >>= 8
            count -= 8
    for at, index in enumerate(indices):
        if at % ((1 << bits) - 2) == 0:
            put(1 << bits)
        put(int(index))
    put((1 << bits) + 1)
    out.append(acc & 255)
    blocks = [bytes(out[at : at + 255]) for at in range(0, len(out), 255)]
    return bytes([bits]) + b"".join(bytes([len(block)]) + block for block in blocks) + b"\0"


def gif(frames, screen, palette, background=1):
    bits = 3
    flags = 0x80 | (bits - 1) if palette else 0
    file = b"GIF89a" + struct.pack("<HHBBB", *screen, flags, background, 0) + (palette or b"")
    for values, (x, y), disposal, transparent, local, interlaced in frames:
        control = disposal << 2 | (transparent is not None)
        file += b"!\xf9\x04" + struct.pack("<BHB", control, 5, transparent or 0) + b"\0"
        height, width = values.shape
        local_flags = (0x80 | (bits - 1) if local else 0) | (0x40 if interlaced else 0)
        file += b"," + struct.pack("<HHHHB", x, y, width, height, local_flags) + (local or b"")
        if interlaced:
            values = np.concatenate([values[0::8], values[4::8], values[2::4], values[1::2]])
        file += lzw(values.reshape(-1), bits)
    return file + b";"


def gifs():
    random = np.random.default_rng(4)
    palette, other = (random.integers(0, 256, 24).astype(np.uint8).tobytes() for _ in range(2))
    ramp = b"".join(bytes([v] * 3) for v in range(8))
    def values(width, height):
        return random.integers(0, 8, (height, width))
    def steps(transparent, disposals, local=None):
        places = [((11, 8), (0, 0)), ((5, 4), (3, 2)), ((6, 5), (0, 1)), ((4, 7), (6, 0)), ((11, 8), (0, 0))]
        return [(values(*size), place, disposal, clear, local if at % 2 else None, at == 2)
                for at, ((size, place), disposal, clear) in enumerate(zip(places, disposals, transparent))]
    keep("gif_still.gif", gif(steps([None] * 1, [0]), (11, 8), palette))
    keep("gif_still_clear.gif", gif(steps([3], [0]), (11, 8), palette))
    keep("gif_interlaced.gif", gif([(values(9, 21), (0, 0), 0, None, None, True)], (9, 21), palette))
    keep("gif_keep.gif", gif(steps([None, 2, 5, None, 0], [0, 1, 1, 1, 1]), (11, 8), palette))
    keep("gif_clear.gif", gif(steps([6, 2, 5, 1, 0], [2, 2, 0, 1, 2], other), (11, 8), palette))
    keep("gif_background.gif", gif(steps([None] * 5, [2] * 5, other), (11, 8), palette))
    keep("gif_restore.gif", gif(steps([4, 4, None, 4, 4], [1, 3, 3, 2, 3], other), (11, 8), palette))
    keep("gif_restore_first.gif", gif(steps([4, 4, 4], [3, 3, 3]), (11, 8), palette))
    keep("gif_grey.gif", gif(steps([None, None, None], [0, 2, 1]), (11, 8), ramp))
    keep("gif_grey_clear.gif", gif(steps([3, 3, 3], [0, 2, 1]), (11, 8), ramp))
    keep("gif_no_palette.gif", gif(steps([None], [0]), (11, 8), None))
    keep("gif_offset.gif", gif([(values(5, 4), (3, 2), 0, 6, None, False)], (11, 8), palette))
    keep("gif_too_large.gif", gif([(values(11, 8), (2, 1), 0, None, None, False)], (9, 7), palette))
    keep("gif_grows.gif", gif([(values(6, 5), (0, 0), 0, None, None, False), (values(9, 7), (1, 1), 0, None, None, False)], (6, 5), palette))
    keep("gif_cut.gif", gif([(values(31, 22), (0, 0), 0, None, None, False)], (31, 22), palette)[:-30])
    keep("gif_pillow.gif", saved(photo(20, 15).quantize(16), "GIF"))


# --- BMP and ICO ---

def bmps():
    random = np.random.default_rng(6)
    colors = lambda count: b"".join(random.integers(0, 256, 3).astype(np.uint8).tobytes() + b"\0" for _ in range(count))
    def bmp(name, width, height, bits, data, palette=b"", compression=0, masks=b"", colors_used=0, size=40):
        head = struct.pack("<IiiHHIIiiII", size, width, height, 1, bits, compression, len(data), 2835, 2835, colors_used, 0)
        extra = masks + bytes(size - 40 - len(masks)) if size > 40 else masks
        body = head + extra + palette
        keep(f"bmp_{name}.bmp", b"BM" + struct.pack("<IHHI", 14 + len(body) + len(data), 0, 0, 14 + len(body)) + body + data)
    def noise(width, height, bits):
        return random.integers(0, 256, height * ((width * bits + 31) // 32 * 4)).astype(np.uint8).tobytes()
    for bits in (1, 4, 8):
        bmp(f"{bits}", 13, 6, bits, noise(13, 6, bits), colors(1 << bits), colors_used=1 << bits)
    bmp("4_few", 9, 4, 4, noise(9, 4, 4), colors(5), colors_used=5)
    bmp("grey", 7, 5, 8, noise(7, 5, 8), b"".join(bytes([v, v, v, 0]) for v in range(256)))
    bmp("16", 9, 5, 16, noise(9, 5, 16))
    bmp("565", 9, 5, 16, noise(9, 5, 16), compression=3, masks=struct.pack("<3I", 0xF800, 0x7E0, 0x1F))
    bmp("24", 9, 5, 24, noise(9, 5, 24))
    bmp("24_down", 9, -5, 24, noise(9, 5, 24))
    bmp("32", 9, 5, 32, noise(9, 5, 32))
    bmp("32_fields", 9, 5, 32, noise(9, 5, 32), compression=3, masks=struct.pack("<3I", 0xFF000000, 0xFF0000, 0xFF00))
    bmp("32_alpha", 9, 5, 32, noise(9, 5, 32), compression=3, masks=struct.pack("<4I", 0xFF0000, 0xFF00, 0xFF, 0xFF000000), size=108)
    bmp("24_cut", 9, 5, 24, noise(9, 5, 24)[:70])
    rle8 = bytes([3, 7, 2, 9, 0, 0, 0, 3, 1, 2, 3, 0, 4, 5, 0, 0, 9, 6, 0, 0, 8, 1, 0, 0, 8, 2, 0, 0, 8, 3, 0, 1])
    bmp("rle8", 8, 6, 8, rle8, colors(16), compression=1, colors_used=16)
    rle4 = bytes([8, 0x12, 0, 0, 0, 4, 0x34, 0x56, 4, 0x77, 0, 0, 7, 0x9A, 0, 0, 0, 6, 1, 2, 3, 0, 2, 0xBC, 0, 1])
    bmp("rle4", 8, 4, 4, rle4, colors(16), compression=2, colors_used=16)
    core = struct.pack("<IHHHH", 12, 6, 4, 1, 8) + b"".join(random.integers(0, 256, 3).astype(np.uint8).tobytes() for _ in range(256))
    data = noise(6, 4, 8)
    keep("bmp_os2.bmp", b"BM" + struct.pack("<IHHI", 14 + len(core) + len(data), 0, 0, 14 + len(core)) + core + data)


def icos():
    keep("ico_png.ico", saved(with_alpha(16, 16), "ICO", sizes=[(16, 16)]))
    keep("ico_32.ico", saved(with_alpha(16, 16), "ICO", sizes=[(16, 16)], bitmap_format="bmp"))
    random = np.random.default_rng(8)
    def dib(width, height, bits, palette=b""):
        data = random.integers(0, 256, height * ((width * bits + 31) // 32 * 4) + height * ((width + 31) // 32 * 4))
        head = struct.pack("<IiiHHIIiiII", 40, width, height * 2, 1, bits, 0, 0, 0, 0, 0, 0)
        return head + palette + data.astype(np.uint8).tobytes()
    def ico(name, pictures, cut=None):
        place = 6 + 16 * len(pictures)
        head, body = struct.pack("<HHH", 0, 1, len(pictures)), b""
        for (width, height, bits, declared), data in pictures:
            head += struct.pack("<BBBBHHII", width, height, 0, 0, 1, declared, len(data), place + len(body))
            body += data
        keep(f"ico_{name}.ico", (head + body)[:cut])
    palette = b"".join(random.integers(0, 256, 3).astype(np.uint8).tobytes() + b"\0" for _ in range(16))
    ico("4", [((12, 10, 4, 4), dib(12, 10, 4, palette))])
    ico("24", [((11, 9, 24, 24), dib(11, 9, 24))])
    ico("several", [((5, 5, 24, 24), dib(5, 5, 24)), ((9, 9, 32, 32), dib(9, 9, 32)), ((9, 9, 24, 24), dib(9, 9, 24))])
    ico("other_size", [((7, 7, 24, 24), dib(9, 8, 24))])
    ico("no_mask", [((11, 9, 24, 24), dib(11, 9, 24)[:-20])])


# --- WebP and TIFF ---

def webps():
    keep("webp_lossless.webp", saved(photo(13, 11), "WEBP", lossless=True))
    keep("webp_lossless_alpha.webp", saved(with_alpha(13, 11), "WEBP", lossless=True, exact=True))
    keep("webp_lossy.webp", saved(photo(37, 29), "WEBP", quality=70))
    keep("webp_lossy_alpha.webp", saved(with_alpha(21, 17), "WEBP", quality=70))
    exif = Image.Exif()
    exif[274] = 5
    keep("webp_exif.webp", saved(photo(12, 7), "WEBP", lossless=True, exif=exif))
    def animation(name, frames, **options):
        keep(name, saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], duration=50, **options))
    base = photo(16, 12)
    moving = [base.copy() for _ in range(4)]
    for at, frame in enumerate(moving[1:]):
        frame.paste((200, 30 * at, 9), (2 + 3 * at, 4, 6 + 3 * at, 9))
    animation("webp_anim.webp", moving, lossless=True)
    clear = [Image.new("RGBA", (14, 10), (0, 0, 0, 0)) for _ in range(3)]
    for at, frame in enumerate(clear):
        frame.paste(with_alpha(6, 5, at), (at * 4, at * 2))
    animation("webp_anim_alpha.webp", clear, lossless=True)
    animation("webp_anim_lossy.webp", moving[:2], quality=50)
    def lossless(picture):
        return saved(picture, "WEBP", lossless=True, exact=True)[12:]
    def frame(data, place, size, flags):
        x, y = place
        little = lambda v: struct.pack("<I", v)[:3]
        body = little(x // 2) + little(y // 2) + little(size[0] - 1) + little(size[1] - 1) + little(40) + bytes([flags]) + data
        return b"ANMF" + struct.pack("<I", len(body)) + body + b"\0" * (len(body) & 1)
    places = [((0, 0), (12, 9), 0), ((2, 2), (6, 5), 1), ((4, 0), (8, 7), 2), ((0, 4), (5, 5), 3), ((0, 0), (12, 9), 0), ((6, 4), (4, 4), 0)]
    frames = b"".join(frame(lossless(with_alpha(*size, at)), place, size, flags) for at, (place, size, flags) in enumerate(places))
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes([0x12, 0, 0, 0, 11, 0, 0, 8, 0, 0])
    body += b"ANIM" + struct.pack("<IIH", 6, 0x80FF8040, 0) + frames
    keep("webp_anim_blend.webp", b"RIFF" + struct.pack("<I", len(body)) + body)


def tiffs():
    def tiff(name, picture, **options):
        keep(f"tiff_{name}.tif", saved(picture, "TIFF", **options))
    small = photo(12, 9)
    tiff("rgb", small)
    for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits"):
        tiff(compression, small, compression=compression)
    tiff("predictor", small, compression="tiff_lzw", tiffinfo={317: 2})
    tiff("jpeg", photo(24, 17), compression="jpeg", quality=70)
    tiff("jpeg_grey", photo(24, 17).convert("L"), compression="jpeg", quality=70)
    tiff("1", small.convert("1"))
    tiff("fax", small.convert("1"), compression="group4")
    tiff("grey", small.convert("L"))
    tiff("greya", with_alpha(8, 6).convert("LA"))
    tiff("rgba", with_alpha(10, 7))
    tiff("palette", small.quantize(7), compression="tiff_lzw")
    tiff("cmyk", Image.merge("CMYK", [*small.split(), small.getchannel(1)]))
    wide = np.random.default_rng(2).integers(0, 600, (6, 9))
    tiff("16", Image.fromarray(wide.astype(np.uint16)))
    tiff("32", Image.fromarray((wide.astype(np.int32) - 100) * 400))
    tiff("float", Image.fromarray(wide.astype(np.float32) - 100.5))
    tiff("pages", small, save_all=True, append_images=[photo(12, 9, 2), photo(5, 5)])
    for orientation in (3, 6):
        tiff(f"turned_{orientation}", small, tiffinfo={274: orientation})
    premultiplied = bytearray(FILES["tiff_rgba.tif"])
    at = premultiplied.index(struct.pack("<HHI", 338, 3, 1))
    premultiplied[at + 8] = 1
    keep("tiff_premultiplied.tif", bytes(premultiplied))
    inverted = bytearray(FILES["tiff_grey.tif"])
    at = inverted.index(struct.pack("<HHI", 262, 3, 1))
    inverted[at + 8] = 0
    keep("tiff_white_is_zero.tif", bytes(inverted))


for make in (pngs, apngs, jpegs, gifs, bmps, icos, webps, tiffs):
    make()
index = {}
for old in FOLDER.iterdir():
    if old.suffix in (".png", ".jpg", ".gif", ".bmp", ".ico", ".webp", ".tif"):
        old.unlink()
for name, data in sorted(FILES.items()):
    assert len(data) <= 2048, (name, len(data))
    try:
        images, masks = load_image(data)
        entry = {"images": [described(image) for image in images], "masks": [described(mask) for mask in masks], "alpha": described(load_alpha(data))}
    except Exception as error:
        entry = {"refused": type(error).__name__}
        print(name, repr(error))
    (FOLDER / name).write_bytes(data)
    index[name] = entry
lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in index.items())
(FOLDER / "pictures.json").write_text("{\n" + lines + "\n}\n")
print(len(index), "pictures,", sum(map(len, FILES.values())), "bytes")
