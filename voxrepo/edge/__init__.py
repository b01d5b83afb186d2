"""The server's only door: deadlines, validation, error texts and counting in front of the engine.

One asyncio process serves the Open Inference Protocol over gRPC and HTTP, and metrics, and speaks to one engine
over gRPC. Calls into the engine never carry a deadline and are never cancelled: the engine can be killed by either.

    grpc_front, http_front      transports: bytes in, bytes out, status codes
    openinference, generate     pure codecs between HTTP bodies and protobuf messages
    dataplane                   what the server does, whatever the transport
    voice_calls                 voices: short texts by one engine call, streams and long texts by calls of the stages
    streaming, stage_calls      a voice's audio in pieces, and the messages for that
    holding                     requests wait while a voice is being restarted
    validation, parameters      pure: a voice request is completed or refused
    engine_client               the shield around calls to the engine
    table                       which voices there are; written by the supervisor
"""
