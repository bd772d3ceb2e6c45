import { faults, rejections } from '../../core/errors.ts'
import { exampleProblem } from './examples.ts'
import { problemOf, typeOf } from './problem.ts'
import type { FaultCode, RejectionCode } from '../../core/errors.ts'
import type { Problem } from './problem.ts'

/** Every code that an answer can have. */
export type ProblemCode = RejectionCode | FaultCode

/** One example of `detail` for each code of the catalogue. */
export const exampleDetails: Readonly<Record<ProblemCode, string>> = {
  invalid_request: exampleProblem.detail,
  forbidden: 'the client certificate does not have the common name that is configured for the controller',
  not_found: 'there is no VM web-1 on this host',
  method_not_allowed: 'this route takes DELETE, GET, HEAD, PUT',
  request_timeout: 'send the whole request at once',
  conflict:
    'web-1 was created by a request that differs in disk.size_mib: delete it first, or choose another id',
  vm_deleting: 'web-1 is being deleted and takes no further changes',
  address_in_use: '192.0.2.10 belongs to the VM web-2: choose another address',
  address_not_allowed: '203.0.113.7 is not in 192.0.2.0/24, the ranges for guests on this host',
  vm_not_stopped:
    'CPU and memory of web-1 can change only while it is stopped, and it is running: set its power to stopped, and ' +
    'wait until it is',
  vm_protected: 'web-1 is protected: set "protected" to false, then delete it',
  vm_not_running: 'web-1 is stopped: start it, or connect with follow=true to wait for its next start',
  console_viewers_full: '16 viewers watch the console of web-1 already',
  ssh_host_key_changed:
    'the guest of web-1 has the host key SHA256:uNiVztksCsDhcc0u9e8BrSJ5/HQWNwW1Vp5oRDHbFcE, not the one it had: find out ' +
    'why; to accept it, connect with accept_host_key=SHA256:uNiVztksCsDhcc0u9e8BrSJ5/HQWNwW1Vp5oRDHbFcE',
  snapshot_failed: 'nightly-1 has failed for good: the VM was deleted before its disk was captured',
  snapshots_full: 'this host has 10000 snapshots on record: delete those that have ended',
  image_in_use: 'the image 9f86d081 is in use by 2 VMs on this host: delete them first',
  insufficient_capacity:
    'the host is short of memory by 512 MiB (1024 MiB more asked for, 512 MiB free of 8192 MiB)',
  console_places_exhausted:
    'VMs that never sleep hold all the console places they may have, 1575: stop one, or let one sleep (sleep_after_idle_seconds above 0)',
  user_ids_exhausted:
    'every user id of the configured range belongs to a VM: delete VMs, or raise vms.user_id_count',
  precondition_failed: 'the VM is at revision 19: read it again, and decide again',
  body_too_large: 'a request body has at most 1 MiB',
  unsupported_media_type: 'send the body as application/json',
  disk_shrink: 'the disk of web-1 has 2048 MiB and never shrinks: ask for that or more',
  too_many_vcpus:
    '32000 millicores are 32 vCPUs, and the monitor of this host gives a guest at most 16: ask for at most 16000 millicores',
  disk_too_small: 'the disk has 1024 MiB and its image 2048 MiB: ask for a disk of that or more',
  sleep_needs_network:
    'sleep_after_idle_seconds is 60, and the VM has no network that could wake it: ask for 0, or for a network',
  url_not_allowed: 'part_urls/0: it names a loopback address, where this host may not speak to',
  upgrade_required: 'connect with a WebSocket client, e.g. vmhostctl console',
  headers_too_large: 'request line and headers have at most 16 KiB together',
  internal: 'this is a bug in vmhostd; its log has the details under the request id',
  starting_up: 'waiting for the store to open',

  systemd_unavailable: 'asking systemd for vmhost-web-1.service: its socket does not answer: ECONNREFUSED',
  unit_start_failed: 'starting vmhost-web-1.service: the job ended as failed',
  unit_stop_failed: 'stopping vmhost-web-1.service: the job ended as timeout',
  vm_exited: 'the monitor of web-1 ended with status 0',
  monitor_missing: 'asking qemu-system-x86_64 for its version: spawn ENOENT',
  monitor_unreachable: 'pausing web-1: connect ECONNREFUSED',
  monitor_refused: 'resuming web-1: cont: Resetting the Virtual Machine is required',
  monitor_detached: 'the monitor of web-1 has lost tap vmt2100000000',
  processes_left: 'vmhost-web-1.service is gone, and 1 process is left of it',
  guest_over: 'the guest of web-1 is over, and its monitor still runs',
  disk_io_error:
    'resuming VM web-1: the monitor paused the guest again: the pool has no room for its writes; it continues when there is room again',
  wait_overdue: 'web-1 has been stopping for 40 s, and should have stopped in 30 s',
  no_console_place:
    'storing console-web-1 with systemd: all 1750 places are taken by VMs that run; it is tried again when one is free',
  console_unprotected: 'storing console-web-1 with systemd: its descriptor store is full',
  storage_inspection_failed: 'inspecting the storage pool: its mark is missing; is it mounted?',
  capacity_unknown: 'the last look at the host is 20 s old, and nothing is promised on one older than 15 s',
  disk_foreign:
    'a disk with the name of web-1 is in the pool, and it belongs to a VM web-1 of 2026-03-01T09:00:00.000Z',
  unit_foreign:
    'a unit with the name of web-1 is there, and it belongs to a VM web-1 of 2026-03-01T09:00:00.000Z',
  disk_missing: 'the disk of web-1 is gone from the pool',
  storage_read_only: 'cloning the disk of web-1: EROFS: read-only file system',
  storage_full: 'cloning the disk of web-1: ENOSPC: no space left on device',
  storage_failed: 'cloning the disk of web-1: EIO: i/o error',
  disk_smaller_than_image: 'cloning the disk of web-1: the image has 3072 MiB',
  image_source_refused: 'fetching image 9f86d081: plain http: URLs are not allowed',
  image_too_large: 'fetching image 9f86d081: it has more than the 4096 MiB that this host takes',
  image_unsuitable: 'the rootfs image 9f86d081 is a Linux kernel for x86 (bzImage)',
  image_unavailable: 'fetching image 9f86d081: the answer was 403',
  image_integrity_failed: 'fetching image 9f86d081: verifying it: its SHA-256 is 60303ae2',
  tap_name_taken: 'setting up tap vmt2100000000 of VM web-1: a device of that name is not ours',
  network_failed: 'reading the addresses of this host: netlink does not answer',
  firewall_failed: 'replacing the nftables table inet vmhostd: nft ended with status 1',
  traffic_failed: 'holding frames for vmt2100000000: adding to the map guests: ENOSPC',
  sleep_unsupported:
    'the VM should sleep when it is idle and cannot: the installed monitor cannot save a guest',
  save_failed: 'saving web-1: migrate: the pool has no room',
  restore_failed: 'restoring web-1: migrate-incoming: Unknown savevm section',
  saved_state_corrupt:
    'the saved state is damaged: its memory has 83886080 bytes and was saved with 88080384',
  saved_state_foreign: 'the saved state is foreign: the disk was written after the guest was saved',
  vcpus_unsupported:
    'web-1 asks for 32 vCPUs, and the monitor gives a guest at most 16: ask for fewer cpu_millicores',
  saved_state_too_new:
    'the saved state is too new: it was written by qemu-system-x86_64 10.1.0 with kvm, and here is 10.0.13',
  snapshot_unsupported: 'capturing the disk of web-1: the storage pool cannot share blocks: EOPNOTSUPP',
  vm_gone: 'web-1 was deleted before its disk was captured',
  vm_unsettled: 'waiting for VM web-1: its unit is deactivating',
  staging_lost: 'going on with packing: the packed file is shorter than its record says',
  staging_stale: 'nothing moved for 24 h, and its staging was removed',
  upload_urls_expired: 'sending part 3: the store answered 403 AccessDenied: hand over fresh URLs',
  upload_busy: 'sending part 3: the store answered 503 SlowDown',
  upload_refused: 'sending part 3: the store answered 400 InvalidDigest',
  upload_gone: 'completing the upload: the store answered 404 NoSuchUpload',
  upload_url_not_allowed:
    'sending part 3: the store is at a loopback address, where this host may not speak to',
  upload_too_many_parts: 'packing comes to more than 10000 parts of 8 MiB: choose a larger part_size_mib',
  state_unwritable: 'writing to the state directory: the disk is full',
  step_deadline: 'network.ensure-tap took longer than 30 s and was abandoned',
  not_converging: '16 passes in a row took steps, and the host is not as desired',
  tool_missing: 'running nft: spawn nft ENOENT',
  bug: 'a pass over web-1 met a bug: undefined is not a function',
}

export const isRejection = (code: ProblemCode): code is RejectionCode => Object.hasOwn(rejections, code)

/** Returns the status and title of an answer with this code. A fault of the host is answered as 503. */
export const problemHead = (code: ProblemCode): { readonly status: number; readonly title: string } =>
  isRejection(code) ? rejections[code] : { status: 503, title: faults[code].title }

/** Returns a whole answer with this code. */
export function exampleOf(code: ProblemCode): Problem {
  const detail = exampleDetails[code]
  if (!isRejection(code)) {
    const { status, title } = problemHead(code)
    const retryable = faults[code].retry !== 'on-change'
    return {
      type: typeOf(code),
      title,
      status,
      detail,
      code,
      retryable,
      request_id: exampleProblem.request_id,
    }
  }
  const errors = code === 'invalid_request' ? { errors: exampleProblem.errors } : {}
  return problemOf({ code, detail, ...errors }, exampleProblem.request_id)
}
