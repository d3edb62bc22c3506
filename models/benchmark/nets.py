"""The networks that tools/gpu_check times, as PyTorch modules that return a loss.

Shapes are those of the published models: ResNet-50 (He et al. 2015, stride in the 3x3 convolution),
BERT-base (Devlin et al. 2018, masked-language loss over all places), GPT-2 small (Radford et al.
2019), DeepLabV3+ on ResNet-50 with output stride 16 (Chen et al. 2018). Without dropout, so that
both sides compute the same. export.py writes their ONNX graphs; torch_side.py times them.
"""
import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride=1, dilation=1):
        super().__init__()
        outputs = 4 * width
        self.reduce, self.reduce_norm = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv = nn.Conv2d(width, width, 3, stride, dilation, dilation, bias=False)
        self.conv_norm = nn.BatchNorm2d(width)
        self.expand, self.expand_norm = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.project = None
        if stride != 1 or inputs != outputs:
            self.project = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                         nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.reduce_norm(self.reduce(x)))
        y = F.relu(self.conv_norm(self.conv(y)))
        y = self.expand_norm(self.expand(y))
        return F.relu(y + (x if self.project is None else self.project(x)))


def stage(inputs, width, blocks, stride=1, dilation=1):
    rest = [Bottleneck(4 * width, width, 1, dilation) for _ in range(blocks - 1)]
    return nn.Sequential(Bottleneck(inputs, width, stride, dilation), *rest)


class Backbone(nn.Module):
    """ResNet-50 up to its last stage; with `dilated`, that stage keeps its resolution.

    `width` is that of the first stage's inner convolutions, `blocks` the number in each stage.
    """

    def __init__(self, dilated=False, width=64, blocks=(3, 4, 6, 3)):
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.stages = nn.ModuleList([
            stage(width, width, blocks[0]), stage(4 * width, 2 * width, blocks[1], 2),
            stage(8 * width, 4 * width, blocks[2], 2),
            stage(16 * width, 8 * width, blocks[3], 1 if dilated else 2, 2 if dilated else 1)])

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.stem_norm(self.stem(x))), 3, 2, 1)
        low = self.stages[0](x)
        return low, self.stages[3](self.stages[2](self.stages[1](low)))


class ResNet50(nn.Module):
    def __init__(self, classes=1000, **backbone):
        super().__init__()
        self.backbone = Backbone(**backbone)
        self.head = nn.Linear(32 * backbone.get("width", 64), classes)

    def forward(self, image, label):
        _, x = self.backbone(image)
        return F.cross_entropy(self.head(x.mean((2, 3))), label)


def conv_norm_relu(inputs, outputs, size=1, dilation=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, 1, dilation * (size // 2), dilation, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU())


class DeepLabV3Plus(nn.Module):
    classes = 21

    def __init__(self, channels=256, width=64, **backbone):
        super().__init__()
        deep, low = 32 * width, channels * 3 // 16
        self.backbone = Backbone(dilated=True, width=width, **backbone)
        self.branches = nn.ModuleList([conv_norm_relu(deep, channels),
                                       *(conv_norm_relu(deep, channels, 3, rate) for rate in (6, 12, 18))])
        self.pooled = conv_norm_relu(deep, channels)
        self.project = conv_norm_relu(5 * channels, channels)
        self.low = conv_norm_relu(4 * width, low)
        self.decoder = nn.Sequential(conv_norm_relu(channels + low, channels, 3),
                                     conv_norm_relu(channels, channels, 3))
        self.head = nn.Conv2d(channels, self.classes, 1)

    def forward(self, image, label):
        low, x = self.backbone(image)
        whole = self.pooled(x.mean((2, 3), keepdim=True)).expand(-1, -1, x.shape[2], x.shape[3])
        x = self.project(torch.cat([branch(x) for branch in self.branches] + [whole], 1))
        x = F.interpolate(x, size=low.shape[2:], mode="bilinear", align_corners=False)
        x = self.head(self.decoder(torch.cat([x, self.low(low)], 1)))
        x = F.interpolate(x, size=image.shape[2:], mode="bilinear", align_corners=False)
        return F.cross_entropy(x, label)


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, places, width = x.shape
        q, k, v = (part.view(batch, places, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, places, width))


class Block(nn.Module):
    def __init__(self, width, heads, causal, norm_first, approximate):
        super().__init__()
        self.attention, self.norm_first, self.approximate = Attention(width, heads, causal), norm_first, approximate
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def mlp(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.approximate))

    def forward(self, x):
        if self.norm_first:
            x = x + self.attention(self.attention_norm(x))
            return x + self.mlp(self.mlp_norm(x))
        x = self.attention_norm(x + self.attention(x))
        return self.mlp_norm(x + self.mlp(x))


class Transformer(nn.Module):
    def __init__(self, words, places, causal, width=768, heads=12, layers=12):
        super().__init__()
        approximate = "tanh" if causal else "none"
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.causal = causal
        self.first_norm = None if causal else nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads, causal, causal, approximate) for _ in range(layers))
        self.last_norm = nn.LayerNorm(width) if causal else None
        self.head = nn.Linear(width, words, bias=not causal)
        self.register_buffer("place", torch.arange(places), persistent=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, token, label):
        x = self.words(token) + self.places(self.place[:token.shape[1]])
        x = x if self.first_norm is None else self.first_norm(x)
        for block in self.blocks:
            x = block(x)
        x = x if self.last_norm is None else self.last_norm(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), label.flatten())


class Images:
    """Inputs of an image model: (shape, dtype, highest label) by name, for a batch."""

    def __init__(self, size, classes, per_pixel):
        self.size, self.classes, self.per_pixel = size, classes, per_pixel

    def inputs(self, batch):
        label = (batch, self.size, self.size) if self.per_pixel else (batch,)
        return {"image": ((batch, 3, self.size, self.size), "float32", None),
                "label": (label, "int64", self.classes)}


class Tokens:
    def __init__(self, places, words):
        self.places, self.words = places, words

    def inputs(self, batch):
        shape = (batch, self.places)
        return {"token": (shape, "int64", self.words), "label": (shape, "int64", self.words)}


# name -> (module, inputs, batch size)
NETS = {
    "resnet50": (ResNet50, Images(224, 1000, False), 128),
    "bert_base": (lambda: Transformer(30522, 512, False), Tokens(512, 30522), 16),
    "gpt2_small": (lambda: Transformer(50257, 1024, True), Tokens(1024, 50257), 8),
    "deeplabv3plus": (DeepLabV3Plus, Images(512, 21, True), 8),
}

# The same with everything small, for tests on a processor (tests/gpu/networks).
_THIN = {"width": 8, "blocks": (1, 1, 2, 1)}
_SHALLOW = {"width": 32, "heads": 2, "layers": 2}
SMALL = {
    "resnet50": (lambda: ResNet50(10, **_THIN), Images(32, 10, False), 4),
    "bert_base": (lambda: Transformer(128, 16, False, **_SHALLOW), Tokens(16, 128), 2),
    "gpt2_small": (lambda: Transformer(128, 16, True, **_SHALLOW), Tokens(16, 128), 2),
    "deeplabv3plus": (lambda: DeepLabV3Plus(16, **_THIN), Images(32, 21, True), 2),
}


def example(inputs, batch):
    """Random inputs of a batch, as tensors."""
    tensors = []
    for shape, dtype, classes in inputs.inputs(batch).values():
        tensors.append(torch.randn(shape) if dtype == "float32" else torch.randint(classes, shape))
    return tuple(tensors)
