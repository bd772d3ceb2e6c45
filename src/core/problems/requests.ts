import type { Entries } from './entry.ts'

/** Problems of a request itself, whatever it is about. */
export const requests = {
  rejections: {
    invalid_request: {
      status: 400,
      title: 'The request is malformed',
      meaning:
        'The request is malformed: not JSON, an unknown member or query parameter, a wrong type, a value out of range.',
      remedy: 'Read `errors`: each has a `pointer`, a code and a sentence. Fix the request.',
      example: 'the body is not valid: /compute/cpu_millicores must be between 100 and 32000',
      writtenBy: ['src/api/listener/validation.ts', 'src/lib/schema-check.ts'],
    },
    forbidden: {
      status: 403,
      title: 'The client certificate is not admitted by this API',
      meaning:
        'The client certificate is signed by the right authority but has a common name that is neither `controller.common_name` nor in `controller.clients`. On port 9001: its common name is not one of a node. On port 9002: it is not in `metrics.common_names`. Or a web page of another origin asked for a console.',
      remedy:
        "Use the controller's certificate, or add its name to `controller.clients` and restart the daemon. On port 9001 use the certificate of a node, on port 9002 one with a name of `metrics.common_names`. Open consoles from pages of this listener only.",
      example: 'the common name of the client certificate is not in the configuration of this host',
      writtenBy: ['src/api/controller/clients.ts'],
      advice: [
        "{certificate} is for {common_name}; the host's configuration says in controller.common_name and controller.clients whom it admits",
      ],
    },
    role_required: {
      status: 403,
      title: 'The role of the client certificate does not allow this',
      meaning:
        'The client certificate is admitted, but the role that `controller.clients` gives it does not allow this request, or not for this VM.',
      remedy:
        "Use the controller's certificate, or change the role of this one in `controller.clients` and restart the daemon. `/docs` says which roles each route is for.",
      example: 'this request needs the role controller; the client certificate has the role reader',
      writtenBy: ['src/api/controller/guard-roles.ts'],
      advice: [
        "{certificate} is for {common_name}; the host's configuration says in controller.clients what that name may do",
      ],
    },
    not_found: {
      status: 404,
      title: 'There is no such resource',
      meaning:
        'There is no such VM or snapshot, or no such route. On port 9001: there is no such migration to this node. After a deletion: it is complete.',
      remedy:
        'Check the id and the path; `/docs` lists all routes, and `/docs/coordination.json` those of port 9001.',
      example: 'there is no VM web-1 on this host',
      writtenBy: ['src/commands/vm/store-desired.ts'],
      advice: {
        vm: ['vmhostctl vm ls shows the VMs there are'],
        snapshot: ['vmhostctl snapshot ls and vmhostctl vm ls show what there is'],
        image: ['vmhostctl image ls shows the images there are'],
      },
    },
    method_not_allowed: {
      status: 405,
      title: 'The route does not take this method',
      meaning: 'The route exists but does not take this method.',
      remedy: 'Use a method of the `Allow` header.',
      example: 'this route takes DELETE, GET, HEAD, PUT',
      writtenBy: ['src/api/listener/create-app.ts'],
    },
    request_timeout: {
      status: 408,
      retryAfterSeconds: 1,
      title: 'The request did not arrive in time',
      meaning: 'Headers or body did not arrive in time.',
      remedy: 'Send the whole request at once.',
      example: 'send the whole request at once',
      writtenBy: ['src/api/listener/answer-errors.ts'],
    },
    conflict: {
      status: 409,
      title: 'The id is taken by a different resource',
      meaning:
        'The id belongs to a VM or snapshot that was created by a different request, or to a migration of another VM or of one that is gone.',
      remedy: 'Read what is there. Delete it first, or choose another id.',
      example:
        'web-1 was created by a request that differs in disk.size_mib: delete it first, or choose another id',
      writtenBy: ['src/commands/vm/create-vm.ts'],
      advice: ['vmhostctl {kind} get {name} shows what is there'],
    },
    precondition_failed: {
      status: 412,
      title: 'The resource is not at the revision that the request requires',
      meaning:
        '`If-Match` does not name the stored revision: the resource has changed since you read it, or the ETag is weak (`W/`) and never matches. Or `If-None-Match` names it, as `*` does for each resource that exists.',
      remedy: 'Read it again, and decide again.',
      example: 'the VM is at revision 1893456000000019: read it again, and decide again',
      writtenBy: ['src/api/controller/routes/preconditions.ts'],
    },
    body_too_large: {
      status: 413,
      title: 'The request body is too large',
      meaning: 'The body has more than 1 MiB, or 4 KiB at the listener for other hosts.',
      remedy:
        'Make it smaller: large user data belongs behind a URL inside it, and URLs of parts fit into several requests (`first_part`).',
      example: 'a request body has at most 1 MiB',
      writtenBy: ['src/api/listener/answer-errors.ts'],
    },
    unsupported_media_type: {
      status: 415,
      title: 'The request body is not JSON',
      meaning: 'The body is not `application/json`, or has a content encoding.',
      remedy: 'Send plain JSON with that content type.',
      example: 'send the body as application/json',
      writtenBy: ['src/api/listener/answer-errors.ts'],
    },
    url_not_allowed: {
      status: 422,
      title: 'The outbound policy of this host does not allow the URL',
      meaning:
        'A URL of the request is not allowed on this host: its scheme, its host, or a file outside of the local image directory.',
      remedy:
        'Use https: and a host of `object_store.allowed_hosts`, or a file below `storage.local_images_directory`; or change the configuration of the host.',
      example: 'part_urls/0: it names a loopback address, to which this host may not connect',
      writtenBy: ['src/commands/outbound/check-urls.ts', 'src/core/outbound/outbound-policy.ts'],
      advice: [
        "the host's configuration says in object_store where it may connect to, and in storage.local_images_directory which files it takes",
      ],
    },
    upgrade_required: {
      status: 426,
      title: 'The route speaks WebSocket',
      meaning: 'The console is a WebSocket, and the request does not ask to become one.',
      remedy: 'Connect with a WebSocket client, e.g. `vmhostctl console`.',
      example: 'connect with a WebSocket client, e.g. vmhostctl console',
      writtenBy: ['src/api/controller/routes/console.ts'],
    },
    headers_too_large: {
      status: 431,
      title: 'The request headers are too large',
      meaning: 'Request line and headers have more than 16 KiB together.',
      remedy: 'Send fewer or shorter headers.',
      example: 'request line and headers have at most 16 KiB together',
      writtenBy: ['src/api/listener/answer-errors.ts'],
    },
    internal: {
      status: 500,
      title: 'A bug in vmhostd',
      remedy: 'Report it with the log lines of the `request_id`. A GET shows whether the request was stored.',
      example: 'this is a bug in vmhostd; its log has the details under the request id',
      writtenBy: ['src/api/listener/answer-errors.ts'],
      advice: ['this is a bug of vmhostd: its log has the request with a stack'],
    },
    starting_up: {
      status: 503,
      retryAfterSeconds: 1,
      title: 'The daemon is starting',
      meaning: 'The daemon is starting: the store is not open, or guests are not adopted yet.',
      remedy: 'Try again after `Retry-After` seconds.',
      example: 'waiting for the store to open',
      writtenBy: ['src/api/listener/refused.ts'],
      advice: ['the daemon has just started: run the command again in a moment'],
    },
  },
} as const satisfies Entries
