"""Calls a scheduler with nothing at hand but its address: services and messages come by reflection.

    CLAWJOB_ENDPOINTS=http://127.0.0.1:7700 CLAWJOB_TOKEN=... python reflect.py apps/demo

Prints the services, then the jobs under the parent as JSON.
"""

import os
import sys

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToJson
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)


class Bearer(grpc.UnaryUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    """Adds the token to each call."""

    def __init__(self, token):
        self.metadata = [("authorization", f"Bearer {token}")]

    def intercept_unary_unary(self, call, details, request):
        return call(details._replace(metadata=self.metadata), request)

    def intercept_stream_stream(self, call, details, requests):
        return call(details._replace(metadata=self.metadata), requests)


def main():
    endpoint = os.environ["CLAWJOB_ENDPOINTS"].split(",")[0].removeprefix("http://")
    with grpc.insecure_channel(endpoint) as plain:
        channel = grpc.intercept_channel(plain, Bearer(os.environ["CLAWJOB_TOKEN"]))
        database = ProtoReflectionDescriptorDatabase(channel)
        for service in database.get_services():
            print("service", service)
        service = DescriptorPool(database).FindServiceByName("clawjob.v1.JobService")
        method = service.FindMethodByName("ListJobs")
        call = channel.unary_unary(
            f"/{service.full_name}/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        jobs = call(GetMessageClass(method.input_type)(parent=sys.argv[1]))
        print(MessageToJson(jobs, indent=None))


main()
