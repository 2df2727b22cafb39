# Makes in the moto server at argv[1] what the tests of executor/target call, then switches its authorisation on: from then
# on every signature is checked. Prints the keys of a user who may call it, and of one who may not, as JSON.
import io
import json
import sys
import urllib.request
import zipfile

import boto3

url = sys.argv[1]
root = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}


def client(service, **keys):
    return boto3.client(service, endpoint_url=url, region_name="eu-central-1", **(keys or root))


def post(path, body):
    headers = {"Content-Type": "text/plain"}  # a form would be read as one
    urllib.request.urlopen(urllib.request.Request(url + path, data=body.encode(), headers=headers, method="POST"), timeout=10).read()


def user(name, *actions):
    iam = client("iam")
    iam.create_user(UserName=name)
    statements = [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": statements}))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"access_key_id": key["AccessKeyId"], "secret_access_key": key["SecretAccessKey"]}


post("/moto-api/config", json.dumps({"lambda": {"use_docker": False}}))  # no function is run
out = {
    "caller": user("caller", "sqs:*", "s3:*", "lambda:InvokeFunction", "lambda:Invoke", "sns:Publish", "events:PutEvents", "states:StartExecution"),
    "stranger": user("stranger", "sns:ListTopics"),
    "queue": client("sqs").create_queue(QueueName="jobs")["QueueUrl"],
    "fifo_queue": client("sqs").create_queue(QueueName="jobs.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"],
    "topic": client("sns").create_topic(Name="jobs")["TopicArn"],
    "fifo_topic": client("sns").create_topic(Name="jobs.fifo", Attributes={"FifoTopic": "true"})["TopicArn"],
}
client("s3").create_bucket(Bucket="jobs", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
role = client("iam").create_role(RoleName="r", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
code = io.BytesIO()
with zipfile.ZipFile(code, "w") as z:
    z.writestr("f.py", "def handler(event, context): return event")
client("lambda").create_function(FunctionName="resize", Runtime="python3.12", Role=role, Handler="f.handler", Code={"ZipFile": code.getvalue()})
client("events").create_event_bus(Name="jobs")
machine = {"StartAt": "a", "States": {"a": {"Type": "Succeed"}}}
out["state_machine"] = client("stepfunctions").create_state_machine(name="jobs", definition=json.dumps(machine), roleArn=role)["stateMachineArn"]
# What reaches the topics can be read from queues.
for topic, queue in (("topic", "heard"), ("fifo_topic", "heard.fifo")):
    attributes = {"FifoQueue": "true"} if queue.endswith(".fifo") else {}
    out[queue.replace(".", "_")] = at = client("sqs").create_queue(QueueName=queue, Attributes=attributes)["QueueUrl"]
    arn = client("sqs").get_queue_attributes(QueueUrl=at, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    client("sns").subscribe(TopicArn=out[topic], Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"})
post("/moto-api/reset-auth", "0")
print(json.dumps(out))
