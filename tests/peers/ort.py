"""ONNX Runtime as a peer: one way to open a model and to feed it, for all tools here."""
import onnxruntime


def open_session(path, threads, optimise=True):
    """A session on the CPU with `threads` threads in all."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def input_names(session):
    return [i.name for i in session.get_inputs()]


def run(session, inputs):
    """{output: array}"""
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))
