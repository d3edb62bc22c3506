"""Narrow image models of the families that people train, each with its loss inside."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def conv_bn(inputs, outputs, kernel=3, stride=1, dilation=1, groups=1, act=nn.ReLU):
    padding = dilation * (kernel // 2)
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), act())


class Bottleneck(nn.Module):
    """ResNet-50's block; the last norm starts small, as common recipes have it."""

    def __init__(self, inputs, width, stride=1, act=nn.ReLU):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(conv_bn(inputs, width, 1, act=act), conv_bn(width, width, 3, stride, act=act),
                                  conv_bn(width, outputs, 1, act=nn.Identity))
        nn.init.constant_(self.body[2][1].weight, 0.2)
        self.short = conv_bn(inputs, outputs, 1, stride, act=nn.Identity)
        self.act = act()

    def forward(self, x):
        return self.act(self.body(x) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, act=nn.SiLU):
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 16, 7, 2, act=act), nn.AvgPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Bottleneck(16, 8, 1, act), Bottleneck(32, 12, 2, act), Bottleneck(48, 16, 2, act))
        self.head = nn.Linear(64, 10)

    def forward(self, x, labels):
        x = F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1)
        return F.cross_entropy(self.head(torch.flatten(x, 1)), labels)


class SqueezeExcite(nn.Module):
    def __init__(self, channels, squeezed):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.expand(F.silu(self.reduce(F.adaptive_avg_pool2d(x, 1)))))


class MbConv(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride, factor):
        super().__init__()
        hidden = inputs * factor
        self.body = nn.Sequential(conv_bn(inputs, hidden, 1, act=nn.SiLU),
                                  conv_bn(hidden, hidden, kernel, stride, groups=hidden, act=nn.SiLU),
                                  SqueezeExcite(hidden, max(1, inputs // 4)),
                                  conv_bn(hidden, outputs, 1, act=nn.Identity))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


class EfficientNet(nn.Module):
    """Label smoothing is spelled out: neither exporter has it in its cross-entropy."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(conv_bn(3, 12, 3, 2, act=nn.SiLU), MbConv(12, 12, 3, 1, 2), MbConv(12, 20, 5, 2, 4),
                                      MbConv(20, 20, 5, 1, 4), conv_bn(20, 48, 1, act=nn.SiLU))
        self.head = nn.Linear(48, 10)

    def forward(self, x, labels):
        logits = self.head(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))
        logs = F.log_softmax(logits, -1)
        return -(0.9 * logs.gather(-1, labels[:, None]).squeeze(-1) + 0.1 * logs.mean(-1)).mean()


class Aspp(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.branches = nn.ModuleList([conv_bn(inputs, outputs, 1, act=nn.SiLU)] +
                                      [conv_bn(inputs, outputs, dilation=rate, act=nn.SiLU) for rate in (2, 4, 6)])
        self.image = conv_bn(inputs, outputs, 1, act=nn.SiLU)
        self.project = conv_bn(5 * outputs, outputs, 1, act=nn.SiLU)

    def forward(self, x):
        image = F.interpolate(self.image(F.adaptive_avg_pool2d(x, 1)), size=x.shape[-2:], mode="bilinear")
        return self.project(torch.cat([*(branch(x) for branch in self.branches), image], 1))


class DeepLab(nn.Module):
    """DeepLabV3+: dilated convolutions, pyramid, decoder that reads the first layers."""

    def __init__(self):
        super().__init__()
        self.low = nn.Sequential(conv_bn(3, 12, 3, 2, act=nn.SiLU), Bottleneck(12, 6, 1, nn.SiLU))
        self.high = nn.Sequential(Bottleneck(24, 8, 2, nn.SiLU), conv_bn(32, 32, dilation=2, act=nn.SiLU))
        self.aspp = Aspp(32, 16)
        self.skip = conv_bn(24, 8, 1, act=nn.SiLU)
        self.decoder = nn.Sequential(conv_bn(24, 16, act=nn.SiLU), nn.Conv2d(16, 5, 1))

    def forward(self, x, labels):
        low = self.low(x)
        high = F.interpolate(self.aspp(self.high(low)), size=low.shape[-2:], mode="bilinear")
        logits = self.decoder(torch.cat([high, self.skip(low)], 1))
        return F.cross_entropy(F.interpolate(logits, size=x.shape[-2:], mode="bilinear"), labels, ignore_index=255)


def windows(x, size):
    batch, height, width, channels = x.shape
    x = x.view(batch, height // size, size, width // size, size, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, channels)


class SwinBlock(nn.Module):
    """Attention in windows, shifted or not, with a learned table of relative positions."""

    def __init__(self, width, heads, size, shift, extent):
        super().__init__()
        self.heads, self.size, self.shift = heads, size, shift
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.table = nn.Parameter(torch.randn((2 * size - 1) ** 2, heads) * 0.02)
        places = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).flatten(1)
        apart = (places[:, :, None] - places[:, None]) + size - 1
        self.register_buffer("index", (apart[0] * (2 * size - 1) + apart[1]).flatten(), persistent=False)
        region = torch.zeros(1, extent, extent, 1)
        for number, (rows, columns) in enumerate((a, b) for a in self.parts() for b in self.parts()):
            region[:, rows, columns] = number
        region = windows(region, size)[..., 0]
        mask = torch.where(region[:, None] != region[:, :, None], -100.0, 0.0)
        self.register_buffer("mask", mask, persistent=False)

    def parts(self):
        if not self.shift:
            return [slice(None)]
        return slice(0, -self.size), slice(-self.size, -self.shift), slice(-self.shift, None)

    def attend(self, x):
        count, length, width = x.shape
        q, k, v = self.qkv(x).reshape(count, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        scores = scores + self.table[self.index].view(length, length, self.heads).permute(2, 0, 1)
        if self.shift:
            scores = scores.view(-1, len(self.mask), self.heads, length, length) + self.mask[:, None]
            scores = scores.view(count, self.heads, length, length)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(count, length, width))

    def forward(self, x):
        batch, height, width, channels = x.shape
        y = torch.roll(self.norm1(x), (-self.shift, -self.shift), (1, 2))
        y = self.attend(windows(y, self.size)).view(batch, height // self.size, width // self.size, self.size, self.size, -1)
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(batch, height, width, channels)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + self.mlp(self.norm2(x))


class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 16, 4, 4), nn.LayerNorm(16)
        self.blocks = nn.Sequential(SwinBlock(16, 2, 4, 0, 8), SwinBlock(16, 2, 4, 2, 8))
        self.merge, self.head = nn.Linear(64, 32, bias=False), nn.Linear(32, 10)

    def forward(self, x, labels):
        x = self.blocks(self.norm(self.patches(x).permute(0, 2, 3, 1)))
        x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        return F.cross_entropy(self.head(self.merge(x).mean((1, 2))), labels)


class Vae(nn.Module):
    """The noise of the reparametrisation is an input."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 12, 4, 2, 1), nn.ELU(), nn.Conv2d(12, 20, 4, 2, 1), nn.ELU(), nn.Flatten(),
                                     nn.Linear(320, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 320), nn.ELU(), nn.Unflatten(1, (20, 4, 4)),
                                     nn.ConvTranspose2d(20, 12, 4, 2, 1), nn.ELU(), nn.ConvTranspose2d(12, 1, 4, 2, 1))

    def forward(self, x, noise):
        mean, log_variance = self.encoder(x).chunk(2, -1)
        logits = self.decoder(mean + noise * torch.exp(0.5 * log_variance))
        divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        return (F.binary_cross_entropy_with_logits(logits, x, reduction="sum") + divergence) / x.shape[0]


class Diffusion(nn.Module):
    """A denoiser: sines of the time step, GroupNorm, attention over places."""

    def __init__(self, width=16):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
        self.first, self.second = nn.Conv2d(1, width, 3, 1, 1), nn.Conv2d(width, width, 3, 1, 1)
        self.norm1, self.norm2 = nn.GroupNorm(4, width), nn.GroupNorm(4, width)
        self.qkv, self.last = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, 1, 3, 1, 1)

    def forward(self, x, step, noise):
        half = self.width // 2
        angles = step[:, None].float() * torch.exp(-math.log(10000) * torch.arange(half) / (half - 1))
        x = self.first(x) + self.time(torch.cat([angles.sin(), angles.cos()], 1))[:, :, None, None]
        x = x + self.second(F.silu(self.norm1(x)))
        batch, channels, height, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, 3, channels, -1).unbind(1)
        weights = torch.einsum("bcq,bck->bqk", q * channels ** -0.5, k).softmax(-1)
        x = x + torch.einsum("bqk,bck->bcq", weights, v).reshape(batch, channels, height, width)
        return F.mse_loss(self.last(F.silu(self.norm2(x))), noise)


class Quantizer(nn.Module):
    """An autoencoder whose code is a soft choice of vectors by squared distance."""

    def __init__(self, codes=16, width=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.SiLU(), nn.Conv2d(16, width, 4, 2, 1))
        self.codes = nn.Parameter(torch.randn(codes, width) * 0.3 + 2)
        self.decoder = nn.Sequential(nn.ConvTranspose2d(width, 16, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1))

    def forward(self, x):
        z = self.encoder(x).permute(0, 2, 3, 1) + 2
        flat = z.reshape(-1, z.shape[-1])
        distances = (flat ** 2).sum(1, keepdim=True) + (self.codes ** 2).sum(1) - 2 * flat @ self.codes.t()
        chosen = ((-4 * distances).softmax(-1) @ self.codes).view(z.shape)
        return F.mse_loss(self.decoder(chosen.permute(0, 3, 1, 2)), x) + 0.1 * distances.mean()
