"""Checks the files of this folder with the programs that read them, and runs what they describe as far as this machine can.

usage: check.py --program target/debug/all-in-one     (as root; needs PyYAML; renders the chart by `helm`, or by helm-python-sdk)

What a missing program leaves out is said in a line that begins with `skipped: `. Where the variable `CI` is set, it is a failure,
except for Helm, and for buildah where the machine does not let it work.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

try:
    import helm_python as helm
except (ImportError, OSError):
    # It is a library of the machine's own code: it may be absent, or for another machine.
    helm = None

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TOKEN = "a-token-of-this-check-alone"
# What `distroless/cc` has besides the C library's own parts.
IMAGE_LIBRARIES = {"libc", "libm", "libdl", "libpthread", "librt", "libresolv", "libgcc_s", "libstdc++", "ld-linux-x86-64", "ld-linux-aarch64", "linux-vdso"}
USER = 65532
# How long anything here may take before it counts as broken.
PATIENCE = 60


class Broken(Exception):
    """Something that the checked file should have, or do."""


def need(truth, what):
    if not truth:
        raise Broken(what)


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **{"timeout": PATIENCE, **options})
    need(done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def skipped(what):
    print(f"skipped: {what}")


def has(program, what):
    """Whether a program is there; what is left out without it is said. Continuous integration installs all of them."""
    if shutil.which(program):
        return True
    need("CI" not in os.environ, f"{program} must be installed where nothing may be skipped")
    skipped(f"{what}: no {program}")
    return False


class Serving:
    """A server that said that it serves; ended by the end of the block, and well."""

    def __init__(self, command, name=None, **options):
        self.command, self.name, self.options = command, name, options

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **self.options)
        self.welcome = ""
        for line in self.process.stdout:
            self.welcome += line
            if "Ctrl-C" in line:
                return self
        raise Broken(f"the server ended with {self.process.wait()}: {' '.join(map(str, self.command))}")

    def pid(self):
        # Behind `unshare --fork` the server is a child.
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if self.name and children else self.process.pid

    def __exit__(self, *_):
        os.kill(self.pid(), signal.SIGTERM)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Broken("the server did not end when it was asked to") from None
        need(code == 0, f"the server ended with {code}")


def ask(stream, path, *headers, host="localhost"):
    """The status of an answer."""
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", *headers]
    stream.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    answer = b""
    while b"\r\n" not in answer:
        part = stream.recv(4096)
        need(part, f"no answer to {path}")
        answer += part
    return int(answer.split()[1])


# --- systemd


def check_systemd(program):
    if not has("systemd-analyze", "systemd units"):
        return
    with tempfile.TemporaryDirectory() as folder:
        for unit in (HERE / "systemd").iterdir():
            text = unit.read_text().replace("/usr/bin/all-in-one", str(program))
            (Path(folder) / unit.name).write_text(text)
        units = sorted(str(unit) for unit in Path(folder).iterdir())
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=PATIENCE)
        # It warns about units of the machine, too.
        ours = [line for line in done.stderr.splitlines() if "easel" in line]
        need(done.returncode == 0 and not ours, done.stderr)
        service = str(Path(folder) / "easel.service")
        report = run("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=20", service)
        print(report.strip().splitlines()[-1].strip())


# --- proxies


# What a client of each proxy asks for, and the status that it gets.
AUTHORIZED = f"Authorization: Bearer {TOKEN}"
UPGRADE = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
THROUGH = [
    ("/ready", [], 200),
    ("/metrics", [AUTHORIZED], 404),
    ("/api/v2/jobs", [], 401),
    ("/api/v2/jobs", [AUTHORIZED], 200),
    ("/ws", [AUTHORIZED, *UPGRADE], 101),
]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def connect(port, proxy):
    """A connection to a proxy that was just started."""
    for _ in range(PATIENCE * 10):
        need(proxy.poll() is None, f"the proxy ended with {proxy.returncode}")
        try:
            return socket.create_connection(("127.0.0.1", port), PATIENCE)
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise Broken(f"nothing listens at port {port}")


def ask_through(program, command, folder, port, secure, then=lambda proxy: None, **options):
    """Asks a server on `easel.sock` in the folder through a proxy that `command` starts; `then` does more with the proxy."""
    server = [program, "serve", "--listen", f"unix:{folder}/easel.sock", "--data-dir", folder / "data",
              "--trusted-proxies", "127.0.0.1", "--min-free", "0B"]
    with Serving(server, env={**os.environ, "EASEL_TOKEN": TOKEN}):
        proxy = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
        try:
            for path, headers, status in THROUGH:
                with secure(connect(port, proxy)) as stream:
                    answered = ask(stream, path, *headers, host="easel.example.com")
                need(answered == status, f"{path} through {command[0]}: {answered} instead of {status}")
            then(proxy)
        finally:
            proxy.terminate()
            proxy.wait(PATIENCE)


def make_certificate(folder):
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=easel.example.com",
        "-keyout", folder / "privkey.pem", "-out", folder / "fullchain.pem")


def renew_certificate(folder, port, proxy):
    """A new certificate is served after a reload, without a restart."""
    make_certificate(folder)
    proxy.send_signal(signal.SIGHUP)
    trust = ssl.create_default_context(cafile=folder / "fullchain.pem")
    # A worker with the certificate before may accept for a moment yet, even after a new one has answered.
    for _ in range(PATIENCE * 10):
        try:
            with trust.wrap_socket(connect(port, proxy), server_hostname="easel.example.com") as stream:
                answered = ask(stream, "/ready", host="easel.example.com")
            break
        except ssl.SSLCertVerificationError:
            time.sleep(0.1)
    else:
        raise Broken("the reload took no new certificate")
    need(answered == 200, f"/ready after the reload: {answered} instead of 200")


def check_nginx(program):
    if not has("nginx", "nginx sample"):
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        make_certificate(folder)
        port = free_port()
        sample = (HERE / "proxies/nginx.conf").read_text()
        sample = sample.replace("/etc/easel/tls", str(folder)).replace("/run/easel", str(folder))
        sample = sample.replace("listen 443", f"listen 127.0.0.1:{port}").replace("    listen [::]:443 ssl http2;\n", "")
        main = f"user root; daemon off; pid {folder}/pid; error_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{sample}\n}}\n"
        (folder / "nginx.conf").write_text(main)
        command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]
        run(*command, "-t")
        trust = ssl.create_default_context(cafile=folder / "fullchain.pem")
        trust.check_hostname = False
        ask_through(program, command, folder, port, trust.wrap_socket, then=lambda proxy: renew_certificate(folder, port, proxy))


def check_caddy(program):
    if not has("caddy", "Caddy sample"):
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = {"env": {**os.environ, "HOME": name, "XDG_DATA_HOME": name, "XDG_CONFIG_HOME": name}}
        sample = HERE / "proxies/Caddyfile"
        run("caddy", "validate", "--adapter", "caddyfile", "--config", sample, **own)
        adapted = json.loads(run("caddy", "adapt", "--adapter", "caddyfile", "--config", sample, **own))
        need("unix//run/easel/easel.sock" in json.dumps(adapted), "the proxy has no upstream")
        port = free_port()
        # Without TLS: its certificates come from an authority that is out of reach here.
        text = sample.read_text().replace("/run/easel", name)
        text = text.replace("easel.example.com {", f"http://easel.example.com:{port} {{\n\tbind 127.0.0.1", 1)
        need(f":{port} " in text, "the sample is for another host")
        served = folder / "Caddyfile"
        served.write_text(f"{{\n\tadmin off\n\tpersist_config off\n}}\n{text}")
        command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(served)]
        ask_through(program, command, folder, port, lambda stream: stream, stderr=subprocess.DEVNULL, **own)


# --- the container


def stages():
    """The instructions of the Containerfile: a list for each stage, continuation lines joined."""
    text = re.sub(r"\\\n\s*", "", (HERE / "Containerfile").read_text())
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found = []
    for word, rest in lines:
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest))
    return found


def check_containerfile(program):
    build, image = stages()
    copied = {rest.split()[-1].strip("./") for word, rest in build if word == "COPY" and "./" not in rest.split()[-1]}
    for word, rest in build:
        for source in rest.split()[:-1] if word == "COPY" else []:
            need((ROOT / source).exists(), f"COPY of {source}, which is not there")
    toolchain = re.search(r'channel = "([\d.]+)', (ROOT / "rust-toolchain.toml").read_text())[1]
    need(f"rust:{'.'.join(toolchain.split('.')[:2])}" in build[0][1], f"the image of Rust is not that of the toolchain {toolchain}")
    # What is compiled in must be in the image that compiles.
    for source in [*ROOT.glob("crates/**/*.rs"), *ROOT.glob("bins/**/*.rs")]:
        for included in re.findall(r'include_(?:str|bytes)!\(\s*"([^"]+)"', source.read_text()):
            top = (source.parent / included).resolve().relative_to(ROOT).parts[0]
            need(top in copied, f"{source.relative_to(ROOT)} includes {included}, which is not copied")

    words = dict(image)
    need(words["FROM"].endswith(":nonroot") and "distroless" in words["FROM"], "the image is not distroless")
    need(words["USER"] == f"{USER}:{USER}", "the image runs as somebody else")
    need(words["ENTRYPOINT"].startswith("["), "the entry point needs a shell")
    need("ADD" not in words and "RUN" not in words, "an image without a shell runs nothing")

    if has("hadolint", "the rules of hadolint for the Containerfile"):
        run("hadolint", HERE / "Containerfile")

    libraries = {re.match(r"[^.]+", Path(line.split()[0]).name)[0] for line in run("ldd", program).splitlines()}
    need(libraries <= IMAGE_LIBRARIES, f"the image lacks {libraries - IMAGE_LIBRARIES}")
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return skipped("the image: needs root and unshare")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fault = cannot_build()
        if fault:
            run_image(folder, *files_of(folder, program, image))
            return skipped(f"building the image: {fault}; the files of its last stage were run instead")
        run_image(folder, *built(folder, program, [build[0][1].split()[0], words["FROM"]]))


def copy_program(program, path, root):
    """Copies a program to a path below `root`, and the libraries that it is linked to where it looks for them."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, target)
    for library in re.findall(r"(/\S+) \(", run("ldd", program)):
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)


def cannot_build():
    """Why buildah builds no image here; nothing if it does."""
    if not has("buildah", "the image as it is built"):
        return "no buildah"
    done = subprocess.run(["buildah", "--storage-driver", "vfs", "info"], capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode and f"buildah cannot be used ({(done.stderr.strip().splitlines() or ['without a word'])[-1]})"


# Stands for the compiler where the image is built: hands over a program that was compiled before.
CARGO = """#!/bin/sh
set -e
case " $* " in *" --locked --profile dist --package $PROGRAM "*) ;; *) echo "unknown: $*"; exit 1;; esac
mkdir -p target/dist
install /compiled "target/dist/$PROGRAM"
"""


def built(folder, program, bases):
    """Builds the Containerfile by buildah; answers the image's files, variables, command and user.

    Registries of images may be out of reach, and a release build takes too long: files of this machine stand for the base images,
    and a program that was compiled before is what their `cargo` makes. Every instruction is carried out as it is written."""
    rust, base = folder / "rust", folder / "base"
    for tool in ("sh", "install", "mkdir"):
        copy_program(shutil.which(tool), f"bin/{tool}", rust)
    shutil.copy(program, rust / "compiled")
    cargo = rust / "usr/local/bin/cargo"
    cargo.parent.mkdir(parents=True)
    cargo.write_text(CARGO)
    cargo.chmod(0o755)
    copy_program(program, "unused", base)
    (base / "unused").unlink()

    def buildah(*words):
        return run("buildah", "--storage-driver", "vfs", "--root", folder / "store", "--runroot", folder / "run", *words, timeout=5 * PATIENCE).strip()

    for files, image in zip((rust, base), bases, strict=True):
        container = buildah("from", "scratch")
        buildah("copy", "--quiet", container, files, "/")
        buildah("commit", "--quiet", "--rm", container, image)
    buildah("bud", "--isolation", "chroot", "--pull-never", "--file", HERE / "Containerfile", "--tag", "easel", ROOT)
    container = buildah("from", "--pull-never", "localhost/easel")
    settings = json.loads(buildah("inspect", container))["OCIv1"]["config"]
    need(settings["StopSignal"] == "SIGTERM" and settings["Volumes"] == {"/data": {}}, f"the image has other settings: {settings}")
    need(list(settings["ExposedPorts"]) == ["8189/tcp"], "the image serves at another port")
    files = Path(buildah("mount", container))
    data = (files / "data").stat()
    need((data.st_uid, data.st_gid) == (USER, USER), "the data directory is somebody else's")
    need(stat.S_IMODE(data.st_mode) == 0o700, f"the data directory has the permissions {stat.S_IMODE(data.st_mode):o}")
    variables = dict(pair.split("=", 1) for pair in settings["Env"])
    return files, variables, settings["Entrypoint"] + settings["Cmd"], settings["User"]


def files_of(folder, program, image):
    """The same from what the last stage says, without any builder."""
    variables, command = {}, []
    files = folder / "files"
    for word, rest in image:
        if word == "ENV":
            variables.update(pair.split("=", 1) for pair in rest.split())
        elif word in ("ENTRYPOINT", "CMD"):
            command += json.loads(rest)
    copy_program(program, "usr/bin/easel-server", files)
    (files / "data").mkdir()
    return files, variables, command, dict(image)["USER"]


def run_image(folder, files, variables, command, user):
    """Runs an image's files as its user, as process 1, with a read-only root."""
    (folder / "root").mkdir()
    script = """
        mount -t tmpfs tmpfs "$1" && cp -a "$2/." "$1" && cd "$1" && mkdir -p proc dev
        mount -t proc proc proc && mount --rbind /dev dev
        mount -t tmpfs -o uid=65532,gid=65532,mode=0700 tmpfs data
        mount -o remount,ro tmpfs .
        user=$3
        shift 3
        exec setpriv --no-new-privs chroot --userspec="$user" . "$@"
    """
    variables = {**variables, "EASEL_TOKEN": TOKEN, "EASEL_MIN_FREE": "0B", "EASEL_LISTEN": "0.0.0.0:0"}
    bash = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc", script, "bash", folder / "root", files, user, *command]
    with Serving(bash, "server", env={"PATH": os.environ["PATH"], **variables}) as server:
        status = Path(f"/proc/{server.pid()}/status").read_text()
        need(re.search(rf"^Uid:\s+{USER}\s+{USER}", status, re.M), "it runs as another user")
        need(re.search(r"^CapEff:\s+0+$", status, re.M), "it has capabilities")
        port = int(re.search(r"http://[\d.]+:(\d+)", server.welcome)[1])
        for path, headers, expected in [
            ("/ready", [], 200),
            ("/api/v2/jobs", [], 401),
            ("/api/v2/jobs", [f"Authorization: Bearer {TOKEN}"], 200),
        ]:
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as stream:
                answered = ask(stream, path, *headers)
            need(answered == expected, f"{path}: {answered} instead of {expected}")


def check_replicas_compose(_):
    folder = HERE / "replicas"
    whole = yaml.safe_load((folder / "compose.yaml").read_text())
    services = whole["services"]
    roles = [service["environment"]["EASEL_ROLE"] for service in services.values() if "EASEL_ROLE" in (service.get("environment") or {})]
    need(sorted(roles) == ["api", "api", "worker"], "there are other replicas")
    conf = (folder / "nginx.conf").read_text()
    for name, service in services.items():
        if "EASEL_ROLE" not in (service.get("environment") or {}):
            continue
        need(service["read_only"] and service["cap_drop"] == ["ALL"], f"{name} may do more than it needs")
        context = folder / service["build"]["context"]
        need((context / service["build"]["dockerfile"]).is_file(), "there is no such Containerfile")
        need(service["build"]["args"] == {"FEATURES": "cloud"}, f"{name} has no store for replicas")
        files = {value for key, value in service["environment"].items() if key.endswith("_FILE")}
        need(files == {f"/run/secrets/{secret}" for secret in service["secrets"]}, f"{name} reads other secrets")
        is_asked = f"server {name}:8189" in conf
        need(is_asked == (service["environment"]["EASEL_ROLE"] == "api"), f"nginx and {name} do not fit")
        need(not service.get("ports"), f"{name} can be reached around nginx")
    need({secret for service in services.values() for secret in service.get("secrets", [])} == set(whole["secrets"]), "a secret is not used, or missing")
    need(all(port.startswith("127.0.0.1:") for port in services["nginx"]["ports"]), "a port is open to the network")


def check_replicas_nginx(_):
    if not has("nginx", "nginx of the replicas"):
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Names that resolve outside of the compose file as well.
        sample = (HERE / "replicas/nginx.conf").read_text()
        sample = sample.replace("api-1:8189", "127.0.0.1:1").replace("api-2:8189", "127.0.0.1:2")
        (folder / "nginx.conf").write_text(f"pid {folder}/pid; error_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{sample}\n}}\n")
        run("nginx", "-p", name, "-c", str(folder / "nginx.conf"), "-t")


def seconds(text):
    need(text.endswith("s"), f"{text} is no number of seconds")
    return int(text[:-1])


def check_replicas_kubernetes(_):
    objects = list(yaml.safe_load_all((HERE / "replicas/kubernetes.yaml").read_text()))
    found = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    need(len(found) == len(objects), "two objects have one name")
    settings = found["ConfigMap", "easel"]["data"]
    need(all(isinstance(text, str) for text in settings.values()), "a setting is no text")
    need(not {"EASEL_TOKEN", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY"} & set(settings), "a secret is in the ConfigMap")
    drain = seconds(settings["EASEL_DRAIN_DELAY"]) + seconds(settings["EASEL_DRAIN_GRACE"])
    for role in ("api", "worker"):
        spec = found["Deployment", f"easel-{role}"]["spec"]
        labels = spec["template"]["metadata"]["labels"]
        need(labels == spec["selector"]["matchLabels"], f"{role}: nothing selects the pods")
        budget = found["PodDisruptionBudget", f"easel-{role}"]["spec"]
        need(budget["selector"]["matchLabels"] == labels, f"{role}: the budget is for other pods")
        need(spec["replicas"] > budget.get("minAvailable", 0), f"{role}: no pod may ever go")
        pod = spec["template"]["spec"]
        [container] = pod["containers"]
        need(container["args"] == ["serve", "--role", role], f"{role}: another role")
        need(pod["terminationGracePeriodSeconds"] > drain + 5, f"{role}: the drain is cut off")
        need(pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == USER, f"{role} runs as another user")
        need(container["securityContext"]["readOnlyRootFilesystem"], f"{role}: its root can be written")
        need(container["securityContext"]["capabilities"]["drop"] == ["ALL"], f"{role} has capabilities")
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        need(set(mounts) == {volume["name"] for volume in pod["volumes"]}, f"{role}: a volume is missing, or nowhere")
        files = [value for key, value in settings.items() if key.endswith("_FILE")]
        need(files and all(value.startswith(mounts["secrets"] + "/") for value in files), f"{role}: a secret is elsewhere")
        names = {port["name"] for port in container["ports"]}
        probes = {container[f"{kind}Probe"]["httpGet"]["port"] for kind in ("startup", "liveness", "readiness")}
        need(probes <= names, f"{role}: a port has no such name")
    service = found["Service", "easel"]["spec"]
    api = found["Deployment", "easel-api"]["spec"]["template"]
    need(service["selector"] == api["metadata"]["labels"], "the Service asks other pods")
    ports = {port["name"] for port in api["spec"]["containers"][0]["ports"]}
    need({port["targetPort"] for port in service["ports"]} <= ports, "the Service asks another port")


def check_compose(_):
    service = yaml.safe_load((HERE / "compose.yaml").read_text())["services"]["easel"]
    need(service["read_only"] and service["cap_drop"] == ["ALL"], "the container may more than it needs")
    need(all(port.startswith("127.0.0.1:") for port in service["ports"]), "a port is open to the network")
    context = HERE / service["build"]["context"]
    need((context / service["build"]["dockerfile"]).is_file(), "there is no such Containerfile")
    mounts = {volume.split(":")[1] for volume in service["volumes"]}
    need(mounts == {"/data"}, "another folder than the image's is kept")


# --- the Helm chart


def value(expression, scope):
    """The value of an expression of a template, of those that this chart uses."""
    expression = expression.strip()
    if " | " in expression:
        inner, pipe = expression.rsplit(" | ", 1)
        inner = value(inner, scope)
        if pipe == "quote":
            return json.dumps(str(inner))
        function, width = pipe.split()
        need(function == "nindent", f"{pipe} is beyond this check")
        return "".join(f"\n{' ' * int(width)}{line}" for line in inner.rstrip("\n").splitlines())
    word, *arguments = expression.split()
    if word == "toYaml":
        return yaml.safe_dump(value(arguments[0], scope), sort_keys=False)
    if word == "add":
        return sum(value(argument, scope) for argument in arguments)
    if word.isdigit():
        return int(word)
    need(word[0] in ".$" and not arguments, f"{{{{ {expression} }}}} is beyond this check")
    found = scope
    for part in word.lstrip(".").split("."):
        need(part in found, f"{word} is no value")
        found = found[part]
    return found


def render(template, scope):
    """What Helm makes of a template, for the actions that this chart uses."""
    parts = re.split(r"(\{\{-?.*?-?\}\})", template)

    def block(at, scope, live):
        out = ""
        while at < len(parts):
            part = parts[at]
            at += 1
            if not part.startswith("{{"):
                out += part
                continue
            if part.startswith("{{-"):
                out = out.rstrip()
            action = part.strip("{}-").strip()
            if action == "end":
                return out if live else "", at
            if action.startswith("if "):
                inner, at = block(at, scope, bool(value(action[3:], scope)))
                out += inner
            elif action.startswith("range "):
                names, source = action[6:].split(" := ")
                key, item = (name.strip() for name in names.split(","))
                begin = at
                for pair in sorted(value(source, scope).items()):
                    inner, at = block(begin, {**scope, key: pair[0], item: pair[1]}, live)
                    out += inner
            elif live:
                out += str(value(action, scope))
        return out, at

    return block(0, scope, True)[0]


def put(values, overrides):
    """The values with others by their paths, as `--set` takes them."""
    for name, given in overrides.items():
        *path, last = name.split(".")
        target = values
        for part in path:
            target = target.setdefault(part, {})
        target[last] = given
    return values


def chart(overrides):
    """The objects of the chart, by kind."""
    folder = HERE / "helm/easel"
    if shutil.which("helm"):
        flags = [flag for name, given in overrides.items() for flag in ("--set", f"{name}={json.dumps(given)}")]
        run("helm", "lint", folder)
        texts = [run("helm", "template", "one", folder, *flags)]
    elif helm:
        found = helm.lint(folder)
        need(not found["errors"], f"{found}")
        with helm.Chart.load(folder) as loaded:
            texts = list(loaded.render(put({}, overrides), name="one").values())
    else:
        values = put(yaml.safe_load((folder / "values.yaml").read_text()), overrides)
        scope = {"Values": values, "Release": {"Name": "one"}}
        texts = [render(path.read_text(), scope) for path in sorted((folder / "templates").glob("*.yaml"))]
    documents = [document for text in texts for document in yaml.safe_load_all(text) if document]
    return {document["kind"]: document for document in documents}


def check_helm(_):
    if shutil.which("helm"):
        print("rendering the chart by the program helm")
    elif helm:
        print(f"rendering the chart by Helm {helm.helm_sdk_version()}")
    else:
        skipped("rendering the chart by helm: neither helm nor helm-python-sdk; a renderer of this check's own did it")
    cargo = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    need(yaml.safe_load((HERE / "helm/easel/Chart.yaml").read_text())["appVersion"] == cargo, "the chart is of another version")
    need(set(chart({})) == {"StatefulSet", "Service"}, "the chart has other objects")
    objects = chart({"ingress.enabled": True, "storage.className": "fast"})
    need(set(objects) == {"StatefulSet", "Service", "Ingress"}, "the ingress is missing")
    spec = objects["StatefulSet"]["spec"]
    need(spec["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast", "the class of the volume is lost")
    need(spec["replicas"] == 1, "two processes would want one data directory")
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    need(pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == USER, "it runs as another user")
    need(container["securityContext"]["readOnlyRootFilesystem"], "its root can be written")
    need(container["securityContext"]["capabilities"]["drop"] == ["ALL"], "it has capabilities")
    need(container["volumeMounts"] == [{"name": "data", "mountPath": "/data"}], "its data is not kept")
    names = {port["name"] for port in container["ports"]}
    probes = [container[f"{kind}Probe"]["httpGet"]["port"] for kind in ("startup", "liveness", "readiness")]
    ports = [port["targetPort"] for port in objects["Service"]["spec"]["ports"]]
    need({*probes, *ports} <= names, "a port has no such name")
    labels = spec["template"]["metadata"]["labels"]
    need(labels == spec["selector"]["matchLabels"] == objects["Service"]["spec"]["selector"], "nothing selects the pod")
    need(all(isinstance(entry["value"], str) for entry in container["env"]), "a variable is no text")


CHECKS = [check_systemd, check_nginx, check_caddy, check_containerfile, check_compose, check_helm, check_replicas_compose, check_replicas_nginx,
          check_replicas_kubernetes]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, required=True, help="the built all-in-one")
    program = parser.parse_args().program.resolve()
    failed = 0
    for check in CHECKS:
        name = check.__name__.removeprefix("check_")
        try:
            check(program)
            print(f"checked: {name}", flush=True)
        except (Broken, subprocess.TimeoutExpired, OSError, KeyError, ValueError) as error:
            print(f"broken: {name}: {error or repr(error)}", flush=True)
            failed += 1
    sys.exit(1 if failed else 0)


main()
