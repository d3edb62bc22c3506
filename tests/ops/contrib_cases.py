#!/usr/bin/env python3
"""Writes contrib_cases.txt: operands and results of operators of com.microsoft, by ONNX Runtime.

    python3 contrib_cases.py > contrib_cases.txt

Per case a line "case OP: title", then "attr NAME VALUE", "in" (or "const", or "-" for an absent
operand) and "out" ("-" where nobody wants it) lines: dtype, dims, elements.
"""
import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

rng = np.random.default_rng(1)
f = lambda *dims, sc=0.5: np.round(rng.standard_normal(dims) * sc, 2).astype(np.float32)
u8 = lambda *dims: rng.integers(0, 255, dims, dtype=np.uint8)
i8 = lambda *dims: rng.integers(-127, 127, dims, dtype=np.int8)
print("# Made by contrib_cases.py with onnxruntime", ort.__version__)


def line(kind, value):
    if value is None:
        return print(kind, "-")
    value = np.asarray(value)
    name = {"float32": "float"}.get(value.dtype.name, value.dtype.name)
    items = " ".join(f"{float(v):.7g}" if value.dtype.kind == "f" else str(int(v)) for v in value.ravel())
    print(kind, name, "[" + ",".join(map(str, value.shape)) + "]", items)


def case(title, op, ins, nout, init=(), tol=None, extra=(), **attrs):
    names = [f"i{k}" if v is not None else "" for k, v in enumerate(ins)]
    outs = ["" if k in extra else f"o{k}" for k in range(nout)]
    node = helper.make_node(op, names, outs, domain="com.microsoft", **attrs)
    infos, inits, feeds = [], [], {}
    for k, v in enumerate(ins):
        if v is None:
            continue
        v = np.asarray(v)
        if k in init:
            inits.append(onnx.numpy_helper.from_array(v, f"i{k}"))
        else:
            infos.append(helper.make_tensor_value_info(
                f"i{k}", helper.np_dtype_to_tensor_dtype(v.dtype), v.shape))
            feeds[f"i{k}"] = v
    graph = helper.make_graph([node], "g", infos,
                              [helper.make_empty_tensor_value_info(o) for o in outs if o], inits)
    model = helper.make_model(graph, ir_version=9, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = iter(session.run(None, feeds))
    print(f"\ncase {op}: {title}")
    for name, value in attrs.items():
        if isinstance(value, list):
            value = "[" + ",".join(map(str, value)) + "]"
        print("attr", name, value)
    for k, v in enumerate(ins):
        line("const" if k in init else "in", v)
    for o in outs:
        line("out", next(results) if o else None)


B, S, N, H = 2, 5, 2, 4
D = N * H
for ta in (0,1):
  for tb in (0,1):
    case(f'FusedMatMul {ta}{tb}','FusedMatMul',[f(2,3,4,5) if not ta else f(2,3,5,4), f(2,3,5,6) if not tb else f(2,3,6,5)],1,transA=ta,transB=tb,alpha=0.5)
case('FusedMatMul ranks','FusedMatMul',[f(2,3,4,5),f(5,6)],1,alpha=0.5)
case('FusedMatMul transBatch','FusedMatMul',[f(4,2,3,5),f(2,3,5,6)],1,transBatchA=1)
case('FusedMatMul transBatch2','FusedMatMul',[f(5,2,3,4),f(6,2,3,5)],1,transBatchA=1,transA=1,transBatchB=1,transB=1)
case('FusedGemm','FusedGemm',[f(3,4),f(4,5),f(5)],1,activation='Relu',alpha=0.5,beta=2.0)
case('FusedGemm leaky','FusedGemm',[f(3,4),f(5,4),f(5)],1,activation='LeakyRelu',activation_alpha=0.2,transB=1)
for a,p in [('Relu',None),('Tanh',None),('Sigmoid',None),('LeakyRelu',[0.2]),('Clip',[-0.3,0.4]),('HardSigmoid',[0.3,0.4])]:
    kw={'activation_params':p} if p else {}
    case(f'FusedConv {a}','FusedConv',[f(1,3,6,6),f(4,3,3,3),f(4)],1,init=(1,2),activation=a,kernel_shape=[3,3],pads=[1,1,1,1],**kw)
case('FusedConv sum','FusedConv',[f(1,3,6,6),f(4,3,3,3),f(4),f(1,4,6,6)],1,init=(1,2),activation='Relu',kernel_shape=[3,3],pads=[1,1,1,1])
case('FastGelu','FastGelu',[f(2,5),f(5)],1); case('FastGelu nobias','FastGelu',[f(2,5)],1)
case('BiasGelu','BiasGelu',[f(2,3,5),f(5)],1)
case('SkipLN','SkipLayerNormalization',[f(B,S,D),f(B,S,D),f(D),f(D),f(D)],4,extra=(1,2),epsilon=1e-5)
case('SkipLN nobias','SkipLayerNormalization',[f(B,S,D),f(B,S,D),f(D)],1)
case('SkipSimpl','SkipSimplifiedLayerNormalization',[f(B,S,D),f(B,S,D),f(D),f(D)],4,extra=(1,2),epsilon=1e-5)
ids = rng.integers(0, 9, (B, S)).astype(np.int32)
case('EmbedLN','EmbedLayerNormalization',[ids,(ids%2).astype(np.int32),f(9,D),f(12,D),f(2,D),f(D),f(D),np.array([[1,1,1,0,0],[1,1,1,1,1]],np.int32)],2,init=(2,3,4,5,6))
case('EmbedLN sum','EmbedLayerNormalization',[ids,None,f(9,D),f(12,D),None,f(D),f(D)],3,init=(2,3,5,6))
W=[f(D,3*D,sc=.2),f(3*D)]
case('Attention','Attention',[f(B,S,D),*W],1,init=(1,2),num_heads=N)
case('Attention causal','Attention',[f(B,S,D),*W],1,init=(1,2),num_heads=N,unidirectional=1)
m2=np.array([[1,1,1,0,0],[1,1,1,1,1]],np.int32)
case('Attention rawmask','Attention',[f(B,S,D),*W,m2],1,init=(1,2),num_heads=N)
case('Attention lens','Attention',[f(B,S,D),*W,np.array([3,5],np.int32)],1,init=(1,2),num_heads=N)
case('Attention startend','Attention',[f(B,S,D),*W,np.array([4,5,1,0],np.int32)],1,init=(1,2),num_heads=N)
case('Attention mask3d','Attention',[f(B,S,D),*W,np.repeat(m2[:,None],S,1)],1,init=(1,2),num_heads=N)
case('Attention bias','Attention',[f(B,S,D),*W,None,None,f(B,N,S,S)],1,init=(1,2),num_heads=N)
case('Attention past','Attention',[f(B,S,D),*W,None,f(2,B,N,3,H)],2,init=(1,2),num_heads=N,unidirectional=1)
case('Attention sizes','Attention',[f(B,S,D),f(D,2*16+24),f(2*16+24)],1,init=(1,2),num_heads=N,qkv_hidden_sizes=[16,16,24])
case('MHA','MultiHeadAttention',[f(B,S,D),f(B,7,D),f(B,7,D)],1,num_heads=N)
case('MHA bias','MultiHeadAttention',[f(B,S,D),f(B,7,D),f(B,7,D),f(3*D)],1,num_heads=N)
case('MHA mask','MultiHeadAttention',[f(B,S,D),f(B,S,D),f(B,S,D),None,m2],1,num_heads=N)
case('MHA attnbias','MultiHeadAttention',[f(B,S,D),f(B,7,D),f(B,7,D),None,None,f(1,N,S,7)],1,num_heads=N)
case('MHA present','MultiHeadAttention',[f(B,S,D),f(B,S,D),f(B,S,D),None,None,None,f(B,N,3,H),f(B,N,3,H)],3,num_heads=N,unidirectional=1)
case('MHA cross','MultiHeadAttention',[f(B,S,D),f(B,N,7,H),f(B,N,7,H)],1,num_heads=N)
cs=np.cos(np.arange(16)[:,None]*np.arange(1, H // 2 + 1)[None]*.1).astype(np.float32); sn=np.sin(np.arange(16)[:,None]*np.arange(1, H // 2 + 1)[None]*.1).astype(np.float32)
for il in (0,1):
    case(f'Rotary {il}','RotaryEmbedding',[f(B,S,D),np.array([2],np.int64),cs,sn],1,init=(2,3),interleaved=il)
    case(f'Rotary4 {il}','RotaryEmbedding',[f(B,N,S,H),np.tile(np.arange(S),(B,1)).astype(np.int64),cs,sn],1,init=(2,3),interleaved=il)
K_,N_,bs=70,6,32
for bits in (4,8):
    nb=(K_+bs-1)//bs; blob=bs*bits//8
    zp=u8(N_*((nb*bits+7)//8)) if bits==4 else u8(N_*nb)
    case(f'NBits {bits}','MatMulNBits',[f(3,K_),u8(N_,nb,blob),f(N_*nb)],1,init=(1,2),K=K_,N=N_,bits=bits,block_size=bs,tol=2e-4)
    case(f'NBits zp {bits}','MatMulNBits',[f(3,K_),u8(N_,nb,blob),f(N_*nb),zp],1,init=(1,2,3),K=K_,N=N_,bits=bits,block_size=bs,tol=2e-4)
case('IntToFloat','MatMulIntegerToFloat',[u8(3,8),i8(8,5),np.float32(.1),np.float32(.2),np.uint8(3),np.int8(1),f(5)],1)
case('IntToFloat cols','MatMulIntegerToFloat',[u8(3,8),i8(8,5),np.float32(.1),f(5),np.uint8(3),i8(5)],1)
case('DynQ','DynamicQuantizeMatMul',[f(3,8),u8(8,5),np.float32([.2]),np.uint8([7]),f(5)],1,init=(1,2,3,4),tol=2e-4)
case('QGemm','QGemm',[u8(3,8),np.float32(.1),np.uint8(3),i8(5,8),np.float32(.2),np.int8(1),rng.integers(-99,99,5).astype(np.int32),np.float32(2),np.uint8(9)],1,transB=1)
case('QGemm f','QGemm',[u8(3,8),np.float32(.1),np.uint8(3),i8(8,5),np.float32(.2),np.int8(1)],1,alpha=1.0)
q=[np.float32(.1),np.uint8(3)]; yq=[np.float32(.2),np.uint8(100)]
case('QAdd','QLinearAdd',[u8(3,8),*q,u8(8),*q,*yq],1); case('QMul','QLinearMul',[u8(3,8),*q,u8(3,8),*q,np.float32(2),np.uint8(3)],1)
case('QSig','QLinearSigmoid',[u8(3,8),*q,np.float32(1/256),np.uint8(0)],1,init=(1,2,3,4)); case('QLeaky','QLinearLeakyRelu',[u8(3,8),np.float32(.1),np.uint8(128),*yq],1,init=(1,2,3,4),alpha=0.1)
case('QGAP','QLinearGlobalAveragePool',[u8(1,3,5,5),*q,*yq],1); case('QAP','QLinearAveragePool',[u8(1,3,6,6),*q,*yq],1,kernel_shape=[2,2],strides=[2,2])
case('QConcat','QLinearConcat',[*yq,u8(2,3),*q,u8(2,4),np.float32(.3),np.uint8(7)],1,init=(0,1,3,4,6,7),axis=1)
case('QSoftmax','QLinearSoftmax',[u8(2,7),*q,np.float32(1/256),np.uint8(0)],1,init=(1,2,3,4),axis=-1,opset=13)
case('ExpandDims','ExpandDims',[f(2,3),np.array([1],np.int32)],1,init=(1,))
case('Trilu','Trilu',[f(4,4),np.array(1,np.int64)],1,init=(1,),upper=0)
case('TransposeMatMul','TransposeMatMul',[f(5,3),f(5,4)],1,transA=1)
