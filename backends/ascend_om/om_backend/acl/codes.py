"""AscendCL's return codes: what each is called, what must follow, and a sentence for the person who reads it.

Names and numbers are those of AscendCL's public headers (``acl_base``, ``rt_error_codes``, ``ge_error_codes``). The
leading digit groups them: 1 bad argument, state or environment; 2 resource or unsupported; 3 business limit; 5 internal
or hardware. ``ACL_ERROR_GE_FAILURE`` (500002) and a few others are catch-alls: what they mean is in the error text, see
:mod:`om_backend.acl.texts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from om_backend.device.faults import Action


class Phase(str, Enum):
    """What the runtime was doing; the same code asks for different things at different times."""

    OPEN = "open"
    LOAD = "load"
    RUN = "run"
    CLOSE = "close"


_REQUEST, _FAIL, _RETRY, _REFUSE = Action.REQUEST, Action.FAIL, Action.RETRY, Action.REFUSE
_RELOAD, _RESTART, _OUT = Action.RELOAD, Action.RESTART, Action.OUT_OF_SERVICE


@dataclass(frozen=True)
class Code:
    """One return code.

    Attributes:
        name: its name in AscendCL's headers.
        run: what must follow when it comes from a run.
        advice: a sentence.
        load: what must follow when it comes from a load; by default ``REFUSE`` for everything milder than ``RESTART``.
        open: the same for opening the device.
        vague: the error text may say more than the code.
    """

    name: str
    run: Action
    advice: str
    load: Action | None = None
    open: Action | None = None
    vague: bool = False

    def action(self, phase: Phase) -> Action:
        """What must follow in ``phase``."""
        special = {Phase.LOAD: self.load, Phase.OPEN: self.open}.get(phase)
        if special is not None:
            return special
        if phase in (Phase.LOAD, Phase.OPEN) and self.run not in (_RESTART, _OUT):
            return _REFUSE
        return self.run


_OUR_BUG = "a call was made with arguments that this CANN does not accept; report it with the text"
_BAD_FILE = "the model file is damaged or of a foreign kind; deploy it again"
_NOT_OURS = "a single-operator code, which no model run gives; something else in this process uses the device"
_THREAD = "the call came without the context or stream that it belongs to; the context is set again before the next"
_STALE = "a handle was used that no longer lives; the process is restarted"
_ENVIRONMENT = "source CANN's set_env.sh in the environment of the server"
_NO_MEMORY = "the device has no memory left for this; unload a model or use fewer instances or smaller gears"
_EXHAUSTED = "the device has run out of a resource (streams, events, models or queues); the process is restarted"
_OVERFLOW = "a number overflowed in the graph; build the model with --precision_mode_v2=origin or mixed_float16"
_INNER = "the device's software failed inside; the process is restarted, look into plog if it comes again"
_KERNEL = "a kernel of the graph failed and the device context is lost; the process is restarted"
_STUCK = "a kernel of the graph did not end and the device context is lost; the process is restarted"
_HARDWARE = "the device reports a hardware fault; take it out of service and look at npu-smi"
_CHANNEL = "the channel between host and device failed; the process is restarted, look at the driver if it comes again"
_DEVICE_GONE = "the device does not answer any more; it is out of service until a person has looked at it"
_ABORTED = "the device's tasks were aborted from outside; the process is restarted"

_RT = "ACL_ERROR_RT_"
_GE = "ACL_ERROR_GE_"

CODES: dict[int, Code] = {
    100000: Code("ACL_ERROR_INVALID_PARAM", _RELOAD, _OUR_BUG, vague=True),
    100001: Code("ACL_ERROR_UNINITIALIZE", _RESTART, "AscendCL is not initialised in this process; it is restarted"),
    100002: Code("ACL_ERROR_REPEAT_INITIALIZE", _REFUSE, "AscendCL was initialised before by another library"),
    100003: Code("ACL_ERROR_INVALID_FILE", _REFUSE, "the AscendCL settings file is missing or unreadable"),
    100006: Code("ACL_ERROR_PARSE_FILE", _REFUSE, "the AscendCL settings file is not valid JSON for AscendCL"),
    100011: Code("ACL_ERROR_INVALID_MODEL_ID", _RELOAD, "the model is not loaded any more; it is loaded again"),
    100012: Code("ACL_ERROR_DESERIALIZE_MODEL", _REFUSE, _BAD_FILE),
    100013: Code("ACL_ERROR_PARSE_MODEL", _REFUSE, _BAD_FILE),
    100014: Code("ACL_ERROR_READ_MODEL_FAILURE", _REFUSE, _BAD_FILE),
    100015: Code("ACL_ERROR_MODEL_SIZE_INVALID", _REFUSE, _BAD_FILE),
    100016: Code("ACL_ERROR_MODEL_MISSING_ATTR", _REFUSE, _BAD_FILE),
    100017: Code("ACL_ERROR_MODEL_INPUT_NOT_MATCH", _RELOAD, _NOT_OURS),
    100018: Code("ACL_ERROR_MODEL_OUTPUT_NOT_MATCH", _RELOAD, _NOT_OURS),
    100019: Code("ACL_ERROR_MODEL_NOT_DYNAMIC", _RELOAD, "a gear was set on a model without gears; it is loaded again"),
    100024: Code("ACL_ERROR_OP_NOT_FOUND", _RELOAD, _NOT_OURS),
    100026: Code("ACL_ERROR_UNSUPPORTED_DATA_TYPE", _RELOAD, "the device does not know a data type of this model"),
    100037: Code("ACL_ERROR_REPEAT_FINALIZE", _RESTART, "AscendCL was closed before by another library"),
    100039: Code(
        "ACL_ERROR_COMPILING_STUB_MODE",
        _OUT,
        "the process was linked to CANN's stub library for builds; remove devlib and stub folders from LD_LIBRARY_PATH",
    ),
    148049: Code("ACL_ERROR_INVALID_OPP_PATH", _OUT, f"ASCEND_OPP_PATH is wrong; {_ENVIRONMENT}"),
    107000: Code(f"{_RT}PARAM_INVALID", _RELOAD, _OUR_BUG, vague=True),
    107001: Code(
        f"{_RT}INVALID_DEVICEID",
        _RESTART,
        "there is no such device: its number is too high, the driver is not loaded, or ASCEND_RT_VISIBLE_DEVICES or "
        "ASCEND_VISIBLE_DEVICES hides it",
        open=_REFUSE,
    ),
    107002: Code(f"{_RT}CONTEXT_NULL", _RETRY, _THREAD),
    107003: Code(f"{_RT}STREAM_CONTEXT", _RETRY, _THREAD),
    107004: Code(f"{_RT}MODEL_CONTEXT", _RETRY, _THREAD),
    107005: Code(f"{_RT}STREAM_MODEL", _RETRY, _THREAD),
    107008: Code(f"{_RT}ADDR_UNALIGNED", _RELOAD, "a buffer is not aligned to 64 bytes; the model is loaded again"),
    107017: Code(f"{_RT}INVALID_HANDLE", _RESTART, _STALE),
    107019: Code(f"{_RT}WAIT_TIMEOUT", _RETRY, "a wait on the device ran out of time; the call may be made again"),
    107020: Code(f"{_RT}TASK_TIMEOUT", _RELOAD, "a task on the device ran out of time; the model is loaded again"),
    107022: Code(f"{_RT}DEVICE_TASK_ABORT", _RESTART, _ABORTED),
    107023: Code(f"{_RT}STREAM_ABORT", _RESTART, _ABORTED),
    107037: Code(f"{_RT}MODEL_RUNNING", _RETRY, "the model is still running; the call may be made again later"),
    145000: Code(
        f"{_GE}PARAM_INVALID",
        _RELOAD,
        "the number or the size of the buffers is not what the model takes; it is loaded again",
        vague=True,
    ),
    145001: Code(f"{_GE}EXEC_NOT_INIT", _RESTART, "AscendCL's model executor is closed; the process is restarted"),
    145002: Code(f"{_GE}EXEC_MODEL_PATH_INVALID", _REFUSE, "the model file is missing or unreadable; deploy it"),
    145003: Code(f"{_GE}EXEC_MODEL_ID_INVALID", _RELOAD, "the model is not loaded any more; it is loaded again"),
    145006: Code(f"{_GE}EXEC_MODEL_DATA_SIZE_INVALID", _REFUSE, _BAD_FILE, vague=True),
    145009: Code(f"{_GE}EXEC_LOAD_MODEL_REPEATED", _REFUSE, "the model is loaded already under this id"),
    145011: Code(
        f"{_GE}DYNAMIC_INPUT_ADDR_INVALID", _RELOAD, "the gear input has no buffer; the model is loaded again"
    ),
    145012: Code(
        f"{_GE}DYNAMIC_INPUT_LENGTH_INVALID",
        _REQUEST,
        "the shapes do not have as many dims as the model's gears, or differ in a fixed dim",
    ),
    145013: Code(f"{_GE}DYNAMIC_BATCH_SIZE_INVALID", _REQUEST, "the shapes are none of the model's gears"),
    145014: Code(f"{_GE}AIPP_BATCH_EMPTY", _REFUSE, "the model has image preprocessing (AIPP), which is not run here"),
    145015: Code(f"{_GE}AIPP_NOT_EXIST", _REFUSE, "the model has image preprocessing (AIPP), which is not run here"),
    145016: Code(f"{_GE}AIPP_MODE_INVALID", _REFUSE, "the model has image preprocessing (AIPP), which is not run here"),
    145020: Code(f"{_GE}FORMAT_INVALID", _RELOAD, "a tensor's format is not what the model takes"),
    145021: Code(f"{_GE}SHAPE_INVALID", _REQUEST, "a tensor's shape is not what the model takes"),
    145022: Code(f"{_GE}DATATYPE_INVALID", _REQUEST, "a tensor's data type is not what the model takes"),
    161001: Code("ACLNN_ERR_PARAM_NULLPTR", _RELOAD, _NOT_OURS),
    161002: Code("ACLNN_ERR_PARAM_INVALID", _RELOAD, _NOT_OURS),
    361001: Code("ACLNN_ERR_RUNTIME_ERROR", _RESTART, _NOT_OURS),
    561000: Code("ACLNN_ERR_INNER", _RESTART, _NOT_OURS),
    561103: Code("ACLNN_ERR_INNER_NULLPTR", _RESTART, _NOT_OURS),
    200000: Code("ACL_ERROR_BAD_ALLOC", _RETRY, "the host has no memory left; give the container more or shed load"),
    200001: Code("ACL_ERROR_API_NOT_SUPPORT", _RELOAD, "this CANN does not offer the call for this kind of model"),
    200002: Code("ACL_ERROR_INVALID_DEVICE", _RESTART, "the device is not valid any more; the process is restarted"),
    200003: Code(
        "ACL_ERROR_MEMORY_ADDRESS_UNALIGNED", _RELOAD, "a buffer is not aligned to 64 bytes; the model is loaded again"
    ),
    200005: Code("ACL_ERROR_INVALID_RESOURCE_HANDLE", _RESTART, _STALE),
    200006: Code("ACL_ERROR_FEATURE_UNSUPPORTED", _REFUSE, "this device or driver does not offer the feature"),
    207000: Code(f"{_RT}FEATURE_NOT_SUPPORT", _REFUSE, "this device or driver does not offer the feature"),
    207001: Code(f"{_RT}MEMORY_ALLOCATION", _RETRY, _NO_MEMORY),
    207003: Code(f"{_RT}AICORE_OVER_FLOW", _FAIL, _OVERFLOW),
    207004: Code(
        f"{_RT}NO_DEVICE", _OUT, "no device node is here; pass /dev/davinci*, davinci_manager, devmm_svm and hisi_hdc"
    ),
    207005: Code(f"{_RT}RESOURCE_ALLOC_FAIL", _RESTART, _EXHAUSTED),
    207006: Code(
        f"{_RT}NO_PERMISSION", _OUT, "this user may not open the device nodes; put it into the group HwHiAiUser"
    ),
    207007: Code(f"{_RT}NO_EVENT_RESOURCE", _RESTART, _EXHAUSTED),
    207008: Code(f"{_RT}NO_STREAM_RESOURCE", _RESTART, _EXHAUSTED),
    207009: Code(f"{_RT}NO_NOTIFY_RESOURCE", _RESTART, _EXHAUSTED),
    207010: Code(f"{_RT}NO_MODEL_RESOURCE", _RESTART, _EXHAUSTED),
    207011: Code(f"{_RT}NO_CDQ_RESOURCE", _RESTART, _EXHAUSTED),
    207012: Code(f"{_RT}OVER_LIMIT", _RESTART, _EXHAUSTED),
    207016: Code(f"{_RT}AIVEC_OVER_FLOW", _FAIL, _OVERFLOW),
    207017: Code(f"{_RT}OVER_FLOW", _FAIL, _OVERFLOW),
    207018: Code(f"{_RT}DEVICE_OOM", _RETRY, _NO_MEMORY),
    207020: Code(f"{_RT}TIMEOUT", _RETRY, "the driver ran out of time; the call may be made again once"),
    245000: Code(f"{_GE}MEMORY_ALLOCATION", _RETRY, "the host has no memory left for the model"),
    245002: Code(f"{_GE}DEVICE_MEMORY_ALLOCATION_FAILED", _RETRY, _NO_MEMORY),
    300000: Code("ACL_ERROR_STORAGE_OVER_LIMIT", _REFUSE, "the model has more gears than AscendCL reads back (128)"),
    500000: Code("ACL_ERROR_INTERNAL_ERROR", _RESTART, _INNER, load=_RESTART, vague=True),
    500001: Code("ACL_ERROR_FAILURE", _RESTART, _INNER, load=_RESTART, vague=True),
    500002: Code(f"{_GE}FAILURE", _RESTART, _INNER, load=_REFUSE, vague=True),
    500003: Code(f"{_RT}FAILURE", _RESTART, _INNER, vague=True),
    500004: Code("ACL_ERROR_DRV_FAILURE", _RESTART, _INNER),
    500005: Code("ACL_ERROR_PROFILING_FAILURE", _RESTART, _INNER),
    507000: Code(f"{_RT}INTERNAL_ERROR", _RESTART, _INNER),
    507001: Code(f"{_RT}TS_ERROR", _RESTART, _INNER),
    507002: Code(f"{_RT}STREAM_TASK_FULL", _RETRY, "the device's task queue is full; the call may be made again"),
    507007: Code(f"{_RT}CONTEXT_RELEASE_ERROR", _RESTART, "the device was released once too often in this process"),
    507008: Code(
        f"{_RT}SOC_VERSION", _REFUSE, "the model was built for another chip; build it with this device's --soc_version"
    ),
    507009: Code(
        f"{_RT}TASK_TYPE_NOT_SUPPORT",
        _REFUSE,
        "the model does not run on this device; on a vNPU slice it must be built with --virtual_type=1",
    ),
    507010: Code(f"{_RT}LOST_HEARTBEAT", _OUT, _DEVICE_GONE),
    507011: Code(f"{_RT}MODEL_EXECUTE", _RESTART, "the run failed on the device; the process is restarted"),
    507013: Code(f"{_RT}SYS_DMA", _RESTART, _CHANNEL),
    507014: Code(f"{_RT}AICORE_TIMEOUT", _RESTART, _STUCK),
    507015: Code(f"{_RT}AICORE_EXCEPTION", _RESTART, _KERNEL),
    507016: Code(f"{_RT}AICORE_TRAP_EXCEPTION", _RESTART, _KERNEL),
    507017: Code(f"{_RT}AICPU_TIMEOUT", _RESTART, _STUCK),
    507018: Code(f"{_RT}AICPU_EXCEPTION", _RESTART, _KERNEL),
    507033: Code(
        f"{_RT}DEV_SETUP_ERROR",
        _OUT,
        "the device cannot be opened: another process holds it, this user may not open /dev/davinci*, or driver and "
        "firmware do not fit together",
        open=_RESTART,
    ),
    507034: Code(f"{_RT}VECTOR_CORE_TIMEOUT", _RESTART, _STUCK),
    507035: Code(f"{_RT}VECTOR_CORE_EXCEPTION", _RESTART, _KERNEL),
    507036: Code(f"{_RT}VECTOR_CORE_TRAP_EXCEPTION", _RESTART, _KERNEL),
    507042: Code(f"{_RT}AICORE_TRAP_READ_OVERFLOW", _RESTART, _KERNEL),
    507043: Code(f"{_RT}AICORE_TRAP_WRITE_OVERFLOW", _RESTART, _KERNEL),
    507044: Code(f"{_RT}VECTOR_CORE_TRAP_READ_OVERFLOW", _RESTART, _KERNEL),
    507045: Code(f"{_RT}VECTOR_CORE_TRAP_WRITE_OVERFLOW", _RESTART, _KERNEL),
    507046: Code(
        f"{_RT}STREAM_SYNC_TIMEOUT",
        _RESTART,
        "the device did not end the run within the watchdog's time; its stream is abandoned, the process is restarted",
    ),
    507047: Code(f"{_RT}EVENT_SYNC_TIMEOUT", _RESTART, _STUCK),
    507048: Code(f"{_RT}FFTS_PLUS_TIMEOUT", _RESTART, _STUCK),
    507049: Code(f"{_RT}FFTS_PLUS_EXCEPTION", _RESTART, _KERNEL),
    507050: Code(f"{_RT}FFTS_PLUS_TRAP_EXCEPTION", _RESTART, _KERNEL),
    507051: Code(f"{_RT}SEND_MSG", _RESTART, _CHANNEL),
    507052: Code(f"{_RT}COPY_DATA", _RESTART, _CHANNEL),
    507053: Code(f"{_RT}DEVICE_MEM_ERROR", _OUT, _HARDWARE),
    507054: Code(f"{_RT}HBM_MULTI_BIT_ECC_ERROR", _OUT, _HARDWARE),
    507055: Code(f"{_RT}SUSPECT_DEVICE_MEM_ERROR", _OUT, _HARDWARE),
    507056: Code(f"{_RT}LINK_ERROR", _RETRY, "the link to the device failed; the call may be made again once"),
    507057: Code(
        f"{_RT}SUSPECT_REMOTE_ERROR", _RETRY, "the link to the device failed; the call may be made again once"
    ),
    507899: Code(f"{_RT}DRV_INTERNAL_ERROR", _OUT, _DEVICE_GONE),
    507900: Code(f"{_RT}AICPU_INTERNAL_ERROR", _OUT, _DEVICE_GONE),
    507901: Code(f"{_RT}SOCKET_CLOSE", _OUT, _DEVICE_GONE),
    545001: Code(f"{_GE}LOAD_MODEL", _REFUSE, _BAD_FILE, vague=True),
    545002: Code(f"{_GE}EXEC_LOAD_MODEL_PARTITION_FAILED", _REFUSE, _BAD_FILE, vague=True),
    545003: Code(f"{_GE}EXEC_LOAD_WEIGHT_PARTITION_FAILED", _REFUSE, _BAD_FILE, vague=True),
    545004: Code(f"{_GE}EXEC_LOAD_TASK_PARTITION_FAILED", _REFUSE, _BAD_FILE, vague=True),
    545005: Code(f"{_GE}EXEC_LOAD_KERNEL_PARTITION_FAILED", _REFUSE, _BAD_FILE, vague=True),
    545009: Code(f"{_GE}UNLOAD_MODEL", _RESTART, "the model could not be unloaded; the process is restarted"),
    545601: Code(f"{_GE}MODEL_EXECUTE_TIMEOUT", _RESTART, _STUCK),
}
"""All codes of the reference by number. ``RETRY`` at a run becomes ``REFUSE`` at a load by :meth:`Code.action`."""

OUT_OF_MEMORY_CODES = frozenset({207001, 207018, 245002})
"""Codes whose fault is told with the device's free and total bytes."""

STREAM_SYNC_TIMEOUT = 507046
REPEAT_INITIALIZE = 100002
REPEAT_FINALIZE = 100037


def code_of(number: int) -> Code:
    """The table's entry, or for a code not in it one by its range.

    507xxx and everything internal are taken for a lost context; resources and limits for a passing condition; bad
    arguments for a graph in doubt.
    """
    known = CODES.get(number)
    if known is not None:
        return known
    group = number // 100000 if number > 0 else 0
    if group in {2, 3}:
        return Code("", _RETRY if group == 2 else _RELOAD, f"the device gave the unknown code {number}", vague=True)
    if group == 1:
        return Code("", _RELOAD, f"the device gave the unknown code {number} (bad argument or state)", vague=True)
    load = _REFUSE if 545000 <= number < 546000 else _RESTART
    return Code("", _RESTART, f"the device gave the unknown code {number} (internal)", load=load, vague=True)
