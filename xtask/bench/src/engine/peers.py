"""The same operations in PyTorch and Pillow, asked line by line by `cargo xtask bench engine`.

Each is written as the nodes' semantics say, in the way that is usual in PyTorch: no loop over pixels, nothing compiled.
Pictures are float32 [batch, height, width, channels], masks [batch, height, width].

What both programs work on is made here and left in a folder; what the other program made of it is compared here.
"""

import io
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps


def scene(side, channels, seed):
    y, x = np.mgrid[0:side, 0:side].astype(np.float32) / side
    turn = 6.0 + np.arange(channels, dtype=np.float32) + seed % 7
    u, v = x[..., None], y[..., None]
    shape = 0.5 + 0.3 * np.sin(u * turn) * np.cos(v * turn * 1.3) + 0.15 * (u - v)
    grain = np.random.default_rng(seed).integers(0, 4, (side, side, channels)) - 1.5
    return np.trunc(np.clip(shape * 255.0 + grain, 0.0, 255.0)).astype(np.float32) / 255.0


def make(side, batch):
    image = lambda seed, channels: torch.from_numpy(np.stack([scene(side, channels, seed + at) for at in range(batch)]))
    made = {"a": image(1, 3), "b": image(1000, 3), "rgba": image(1, 4)}
    made["mask"], made["mask2"] = image(7, 1)[..., 0].contiguous(), image(1007, 1)[..., 0].contiguous()
    file = io.BytesIO()
    Image.fromarray((made["a"][0].numpy() * 255).astype(np.uint8)).save(file, "PNG", compress_level=4)
    made["png"] = file.getvalue()
    return made


def write(made, folder):
    for name, value in made.items():
        if name == "png":
            (folder / "photo.png").write_bytes(value)
        else:
            value.numpy().tofile(folder / f"{name}.f32")


def nchw(image):
    return image.movedim(-1, 1)


def nhwc(image):
    return image.movedim(1, -1).contiguous()


def to_u8(image):
    return np.clip(255.0 * image.numpy(), 0, 255).astype(np.uint8)


def from_u8(picture):
    return torch.from_numpy(np.asarray(picture).astype(np.float32) / 255.0)


def encode(image):
    file = io.BytesIO()
    Image.fromarray(to_u8(image)).save(file, "PNG", compress_level=4)
    return file.getvalue()


def decode(png):
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(png))).convert("RGB")
    return from_u8(picture)[None]


def composite(destination, source, mask):
    result = destination.clone()
    mask = mask[..., None]
    result[:] = source * mask + result * (1.0 - mask)
    return result


def blend(a, b, factor, mode):
    if mode == "normal":
        mixed = b
    elif mode == "multiply":
        mixed = a * b
    elif mode == "screen":
        mixed = 1 - (1 - a) * (1 - b)
    elif mode == "overlay":
        mixed = torch.where(a <= 0.5, 2 * a * b, 1 - 2 * (1 - a) * (1 - b))
    else:
        g = torch.where(a <= 0.25, ((16 * a - 12) * a + 4) * a, torch.sqrt(a))
        mixed = torch.where(b <= 0.5, a - (1 - 2 * b) * a * (1 - a), a + (2 * b - 1) * (g - a))
    return torch.clamp(a * (1 - factor) + mixed * factor, 0, 1)


def gaussian(radius, sigma):
    line = torch.linspace(-1, 1, 2 * radius + 1)
    kernel = torch.exp(-(line[:, None] ** 2 + line[None, :] ** 2) / (2 * sigma * sigma))
    return kernel / kernel.sum()


def convolved(image, kernel):
    radius = kernel.shape[0] // 2
    planes = F.pad(nchw(image), (radius,) * 4, "reflect")
    channels = image.shape[-1]
    return nhwc(F.conv2d(planes, kernel.expand(channels, 1, -1, -1), groups=channels))


def sharpen(image, radius, sigma, alpha):
    kernel = gaussian(radius, sigma) * -(alpha * 10)
    kernel[radius, radius] = kernel[radius, radius] - kernel.sum() + 1
    return torch.clamp(convolved(image, kernel), 0, 1)


def resized(image, method, side):
    if method == "lanczos":
        pictures = [Image.fromarray(to_u8(frame)).resize((side, side), Image.Resampling.LANCZOS) for frame in image]
        return torch.stack([from_u8(picture) for picture in pictures])
    return nhwc(F.interpolate(nchw(image), size=(side, side), mode=method))


def quantize(image, colors):
    made = []
    for frame in image:
        picture = Image.fromarray(to_u8(frame))
        palette = picture.quantize(colors=colors)
        made.append(from_u8(picture.quantize(colors=colors, palette=palette, dither=Image.Dither.NONE).convert("RGB")))
    return torch.stack(made)


def color_to_mask(image, color):
    numbers = (torch.clamp(image, 0, 1) * 255).round().to(torch.int)
    packed = (numbers[..., 0] << 16) + (numbers[..., 1] << 8) + numbers[..., 2]
    return torch.where(packed == color, 1.0, 0.0).float()


def source_over(source, source_alpha, destination, destination_alpha):
    sa, da = 1 - source_alpha[..., None], 1 - destination_alpha[..., None]
    alpha = sa + (1 - sa) * da
    mixed = source * sa + (1 - sa) * destination * da
    return torch.clamp(torch.where(alpha > 1e-5, mixed / alpha, torch.zeros(())), 0, 1), 1 - alpha[..., 0]


def grow(mask, steps):
    grown = mask[:, None]
    for _ in range(steps):
        across = F.max_pool2d(grown, (1, 3), 1, (0, 1))
        grown = torch.maximum(across, F.max_pool2d(grown, (3, 1), 1, (1, 0)))
    return grown[:, 0]


def dilated(image, size):
    return nhwc(F.max_pool2d(nchw(image), size, 1, size // 2))


def to_yuv(image):
    r, g, b = image.unbind(-1)
    y = 0.299 * r + 0.587 * g + 0.114 * b
    parts = (y, (b - y) * 0.564 + 0.5, (r - y) * 0.713 + 0.5)
    return [part[..., None].repeat(1, 1, 1, 3) for part in parts]


def from_yuv(y, u, v):
    y, u, v = y.mean(-1), u.mean(-1) - 0.5, v.mean(-1) - 0.5
    return torch.stack((y + 1.403 * v, y - 0.714 * v - 0.344 * u, y + 1.773 * u), -1)


def canny(image, low, high):
    grey = (image * torch.tensor([0.299, 0.587, 0.114])).sum(-1)[:, None]
    line = torch.exp(-torch.arange(-2.0, 3.0) ** 2 / 2)
    line = line / line.sum()
    soft = F.conv2d(F.pad(grey, (2, 2, 2, 2), "reflect"), (line[:, None] * line[None, :])[None, None])
    sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    padded = F.pad(soft, (1, 1, 1, 1), "replicate")
    gradients = F.conv2d(padded, torch.stack((sobel, sobel.T))[:, None])
    gx, gy = gradients[:, :1], gradients[:, 1:]
    size = torch.sqrt(gx * gx + gy * gy + 1e-6)
    turn = (torch.round(torch.atan2(gy, gx) / (torch.pi / 4)).long()) % 4
    around = F.pad(size, (1, 1, 1, 1))
    height, width = size.shape[-2:]
    shifted = lambda dy, dx: around[..., 1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width]
    thin = torch.zeros_like(size)
    for number, (dy, dx) in enumerate([(0, 1), (1, 1), (1, 0), (1, -1)]):
        largest = (size > shifted(dy, dx)) & (size > shifted(-dy, -dx))
        thin = torch.where((turn == number) & largest, size, thin)
    strong, weak = thin > high, thin > low
    while True:
        near = F.max_pool2d(strong.float(), 3, 1, 1) > 0
        more = strong | (weak & near)
        if torch.equal(more, strong):
            break
        strong = more
    return strong[:, 0, :, :, None].float().repeat(1, 1, 1, 3)


def padded(image, margin):
    batch, height, width, channels = image.shape
    canvas = torch.ones((batch, height + 2 * margin, width + 2 * margin, channels)) * 0.5
    canvas[:, margin : margin + height, margin : margin + width] = image
    mask = torch.ones((height + 2 * margin, width + 2 * margin))
    mask[margin : margin + height, margin : margin + width] = 0
    return canvas, mask


def feather(mask, width):
    result = mask.clone()
    for at in range(width):
        factor = (at + 1.0) / width
        result[:, :, at] *= factor
        result[:, :, -1 - at] *= factor
        result[:, at] *= factor
        result[:, -1 - at] *= factor
    return result


def combined(a, b):
    return torch.clamp(a + b, 0, 1)


def noisy(image, strength):
    return torch.clamp(image + strength * torch.randn(image.shape), 0, 1)


def photo_graph(png, side):
    image = decode(png)
    small = resized(image, "lanczos", side // 2)
    return encode(blend(small, convolved(small, gaussian(4, 1.0)), 0.5, "screen")[0])


WORK = {
    "encode_png": lambda p, s: encode(p["a"][0]),
    "decode_png": lambda p, s: decode(p["png"]),
    "invert": lambda p, s: 1.0 - p["a"],
    "invert_owned": lambda p, s: 1.0 - p["a"],
    "blend_normal": lambda p, s: blend(p["a"], p["b"], 0.5, "normal"),
    "blend_soft_light": lambda p, s: blend(p["a"], p["b"], 0.5, "soft_light"),
    "composite": lambda p, s: composite(p["a"], p["b"], p["mask"]),
    "porter_duff": lambda p, s: source_over(p["a"], p["mask"], p["b"], p["mask2"]),
    "invert_mask": lambda p, s: 1.0 - p["mask"],
    "threshold": lambda p, s: (p["mask"] > 0.5).float(),
    "combine_masks": lambda p, s: combined(p["mask"], p["mask2"]),
    "color_to_mask": lambda p, s: color_to_mask(p["a"], 0x808080),
    "join_alpha": lambda p, s: torch.cat((p["a"], 1 - p["mask"][..., None]), -1),
    "split_alpha": lambda p, s: (p["rgba"][..., :3].contiguous(), 1 - p["rgba"][..., 3]),
    "to_yuv": lambda p, s: to_yuv(p["a"]),
    "from_yuv": lambda p, s: from_yuv(p["a"], p["b"], p["a"]),
    "noise": lambda p, s: noisy(p["a"], 0.1),
    "flip": lambda p, s: torch.flip(p["a"], [2]),
    "rotate": lambda p, s: torch.rot90(p["a"], 1, [2, 1]).contiguous(),
    "pad": lambda p, s: padded(p["a"], 64),
    "feather": lambda p, s: feather(p["mask"], 64),
    "blur": lambda p, s: convolved(p["a"], gaussian(4, 1.0)),
    "sharpen": lambda p, s: sharpen(p["a"], 1, 1.0, 1.0),
    "grow": lambda p, s: grow(p["mask"], 6),
    "dilate": lambda p, s: dilated(p["a"], 3),
    "canny": lambda p, s: canny(p["a"], 0.1, 0.3),
    "quantize": lambda p, s: quantize(p["a"], 64),
    "nearest": lambda p, s: resized(p["a"], "nearest-exact", s // 2),
    "bilinear": lambda p, s: resized(p["a"], "bilinear", s // 2),
    "bicubic": lambda p, s: resized(p["a"], "bicubic", s // 2),
    "area": lambda p, s: resized(p["a"], "area", s // 2),
    "lanczos": lambda p, s: resized(p["a"], "lanczos", s // 2),
    "graph_invert": lambda p, s: encode((1.0 - decode(p["png"]))[0]),
    "graph_photo": lambda p, s: photo_graph(p["png"], s),
}


def difference(made, folder):
    """How far apart the results are at most, in samples from 0 to 1; the other program's lie in the folder."""
    worst = 0.0
    for number, mine in enumerate([made] if isinstance(made, (bytes, torch.Tensor)) else made):
        if isinstance(mine, bytes):
            mine, theirs = decode(mine).numpy(), decode((folder / f"{number}.png").read_bytes()).numpy()
        else:
            mine, theirs = mine.numpy(), np.fromfile(folder / f"{number}.f32", dtype=np.float32)
            theirs = theirs.reshape(mine.shape)
        worst = max(worst, float(np.abs(mine - theirs).max()))
    return worst


def main():
    known = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = (request["side"], request["batch"])
        if key not in known:
            known = {key: make(*key)}
        torch.set_num_threads(request["threads"])
        if "pictures" in request:
            write(known[key], Path(request["pictures"]))
            print("{}", flush=True)
            continue
        work = WORK[request["name"]]
        with torch.inference_mode():
            started = time.perf_counter_ns()
            made = work(known[key], request["side"])
            answer = {"ns": time.perf_counter_ns() - started}
        if "results" in request:
            answer["difference"] = difference(made, Path(request["results"]))
        del made
        print(json.dumps(answer), flush=True)


main()
