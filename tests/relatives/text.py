"""Narrow models of text, and of text with images, each with its loss inside."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Query from one sequence, key and value from another (or the same)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x, source, mask=None):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in (self.q(x), *self.kv(source).chunk(2, -1)))
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))


class PreNormBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.LayerNorm(width), nn.LayerNorm(width), Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x, mask=None):
        y = self.norm1(x)
        x = x + self.attention(y, y, mask)
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        self.blocks = nn.Sequential(PreNormBlock(width, 4), PreNormBlock(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x, labels):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return F.cross_entropy(self.head(self.norm(self.blocks(x))[:, 0]), labels)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6))


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class LlamaLayer(nn.Module):
    """Rotary positions, fewer heads of keys than of queries, a gated MLP."""

    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, size = heads, groups, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, n * size, bias=False) for n in (heads, groups, groups, heads))
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def spread(self, x):
        batch, groups, length, size = x.shape
        x = x[:, :, None].expand(batch, groups, self.heads // groups, length, size)
        return x.reshape(batch, self.heads, length, size)

    def forward(self, x, cos, sin, mask):
        y = self.norm1(x)
        q, k, v = (layer(y).unflatten(-1, (heads, -1)).transpose(1, 2) for layer, heads in
                   ((self.q, self.heads), (self.k, self.groups), (self.v, self.groups)))
        q, k, v = rotated(q, cos, sin), self.spread(rotated(k, cos, sin)), self.spread(v)
        weights = F.softmax(q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + mask, -1, dtype=torch.float32)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, vocabulary=64, width=32):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.layers = nn.ModuleList([LlamaLayer(width, 4, 2) for _ in range(2)])
        self.norm, self.head = RmsNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("inv_freq", 10000 ** (-torch.arange(0, 8, 2).float() / 8), persistent=False)

    def forward(self, ids):
        length = ids.shape[1]
        angles = torch.arange(length)[:, None].float() * self.inv_freq
        angles = torch.cat([angles, angles], -1)
        mask = torch.full((length, length), torch.finfo(torch.float32).min).triu(1)
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin(), mask)
        logits = self.head(self.norm(x))[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


class PostNormBlock(nn.Module):
    def __init__(self, width, heads, cross):
        super().__init__()
        self.attention, self.norm1 = Attention(width, heads), nn.LayerNorm(width)
        self.cross = Attention(width, heads) if cross else None
        self.norm2 = nn.LayerNorm(width) if cross else None
        self.norm3 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x, mask, memory=None, memory_mask=None):
        x = self.norm1(x + self.attention(x, x, mask))
        if self.cross is not None:
            x = self.norm2(x + self.cross(x, memory, memory_mask))
        return self.norm3(x + self.mlp(x))


class Translator(nn.Module):
    """Encoder and decoder; padding is masked by infinities, the output layer is the embedding."""

    def __init__(self, vocabulary=48, width=32):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=width ** -0.5)
        angles = torch.arange(16)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        self.register_buffer("places", torch.stack([angles.sin(), angles.cos()], -1).flatten(1), persistent=False)
        self.encoder, self.decoder = PostNormBlock(width, 4, False), PostNormBlock(width, 4, True)

    def embed(self, ids):
        return self.embedding(ids) * math.sqrt(self.places.shape[1]) + self.places[:ids.shape[1]]

    def forward(self, source, target):
        padding = torch.zeros(source.shape).masked_fill(source == 0, float("-inf"))[:, None, None]
        later = torch.full((target.shape[1] - 1,) * 2, float("-inf")).triu(1)
        memory = self.encoder(self.embed(source), padding)
        logits = self.decoder(self.embed(target[:, :-1]), later, memory, padding) @ self.embedding.weight.t()
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)


class GruTranslator(nn.Module):
    def __init__(self, vocabulary=40, width=24):
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, width), nn.Embedding(vocabulary, width)
        self.encoder = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.bridge, self.scores = nn.Linear(2 * width, width), nn.Linear(width, 2 * width, bias=False)
        self.decoder, self.head = nn.GRU(width, width, batch_first=True), nn.Linear(3 * width, vocabulary)

    def forward(self, source, target):
        states, last = self.encoder(self.source(source))
        start = torch.tanh(self.bridge(torch.cat([last[0], last[1]], -1)))[None]
        hidden, _ = self.decoder(self.target(target[:, :-1]), start)
        scores = torch.bmm(self.scores(hidden), states.transpose(1, 2)).masked_fill((source == 0)[:, None], -1e9)
        logits = self.head(torch.cat([hidden, torch.bmm(scores.softmax(-1), states)], -1))
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)


class Clip(nn.Module):
    """Images against texts, with a learned temperature."""

    def __init__(self, width=24, vocabulary=40):
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.GroupNorm(3, 12), nn.SiLU(), nn.Conv2d(12, width, 3, 2, 1),
                                   nn.GroupNorm(4, width), nn.SiLU(), nn.Flatten(2))
        self.embedding, self.block = nn.Embedding(vocabulary, width), PreNormBlock(width, 4)
        self.image_head = nn.Linear(width, width, bias=False)
        self.text_head = nn.Parameter(torch.randn(width, width) * width ** -0.5)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, x, ids):
        images = self.image_head(self.image(x).mean(-1))
        texts = self.block(self.embedding(ids))[torch.arange(ids.shape[0]), ids.argmax(-1)] @ self.text_head
        images, texts = (y / y.norm(dim=1, keepdim=True) for y in (images, texts))
        logits, labels = self.logit_scale.exp() * images @ texts.t(), torch.arange(ids.shape[0])
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


class Experts(nn.Module):
    """A mixture: two experts for each token, and a loss that balances them."""

    def __init__(self, width=24, experts=4, vocabulary=40):
        super().__init__()
        self.embedding, self.gate = nn.Embedding(vocabulary, width), nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 32) * 0.2)
        self.down = nn.Parameter(torch.randn(experts, 32, width) * 0.2)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, ids, labels):
        x = self.embedding(ids)
        shares = self.gate(x).softmax(-1)
        best, index = shares.topk(2, -1)
        gates = torch.zeros_like(shares).scatter(-1, index, best / best.sum(-1, keepdim=True))
        hidden = F.gelu(torch.einsum("btd,edh->bteh", x, self.up), approximate="tanh")
        x = x + (gates[..., None] * torch.einsum("bteh,ehd->bted", hidden, self.down)).sum(2)
        balance = (shares.mean((0, 1)) ** 2).sum() * 4
        return F.cross_entropy(self.head(self.norm(x)).transpose(1, 2), labels) + 0.01 * balance


class Distilled(nn.Module):
    """What ONNX files do not say but the exporter's notes do: detach, padding_idx, label smoothing."""

    def __init__(self, width=24, vocabulary=40):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.student, self.teacher = nn.Linear(width, 8), nn.Linear(width, 8)

    def forward(self, ids, labels):
        x = self.embedding(ids).mean(1)
        student, teacher = self.student(x), self.teacher(x.detach())
        distance = F.mse_loss(student, teacher.detach())
        return distance + F.cross_entropy(student, labels, label_smoothing=0.1) + F.cross_entropy(teacher, labels)
