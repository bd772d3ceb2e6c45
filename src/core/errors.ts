import { limits } from '../config/limits.ts'
import { cutText } from '../lib/cut-text.ts'

/**
 * The catalogue: every code the product can return or show, once. A test compares it with `docs/errors.md` in both
 * directions.
 *
 * The caller must fix a rejection (HTTP 4xx). A fault belongs to the host: it is shown in `observed.error`, and becomes
 * a 503 if a read needs the host. `retry` says when another try may help: `soon` (busy), `backoff` (a fault that
 * heals), `on-change` (another desired state should help; otherwise it is tried slowly).
 */
export type RetryClass = 'soon' | 'backoff' | 'on-change'

export const rejections = {
  invalid_request: { status: 400, title: 'The request is malformed' },
  forbidden: { status: 403, title: 'The client certificate does not belong to the controller' },
  not_found: { status: 404, title: 'There is no such resource' },
  method_not_allowed: { status: 405, title: 'The route does not take this method' },
  request_timeout: { status: 408, title: 'The request did not arrive in time' },
  conflict: { status: 409, title: 'The id is taken by a different resource' },
  vm_deleting: { status: 409, title: 'The VM is being deleted' },
  address_in_use: { status: 409, title: 'The address is taken on this host' },
  vm_not_stopped: { status: 409, title: 'The VM must be stopped for this change' },
  vm_protected: { status: 409, title: 'The VM is protected against deletion' },
  vm_not_running: { status: 409, title: 'The VM does not run, so it has no console' },
  console_viewers_full: { status: 409, title: 'The console of the VM has as many viewers as it may have' },
  ssh_host_key_changed: { status: 409, title: 'The guest has another SSH host key than before' },
  snapshot_failed: { status: 409, title: 'The snapshot has failed for good' },
  snapshots_full: { status: 409, title: 'The host has as many snapshots as it may have' },
  image_in_use: { status: 409, title: 'A VM on this host is made of the image' },
  insufficient_capacity: { status: 409, title: 'The host cannot hold the increase' },
  console_places_exhausted: {
    status: 409,
    title: 'VMs that never sleep hold as many console places as they may',
  },
  user_ids_exhausted: { status: 409, title: 'The configured user id range is used up' },
  precondition_failed: { status: 412, title: 'The resource has changed since it was read' },
  body_too_large: { status: 413, title: 'The request body is too large' },
  unsupported_media_type: { status: 415, title: 'The request body is not JSON' },
  disk_shrink: { status: 422, title: 'A disk never shrinks' },
  disk_too_small: { status: 422, title: 'The disk is smaller than its image' },
  too_many_vcpus: { status: 422, title: 'The monitor of this host does not support that many vCPUs' },
  sleep_needs_network: { status: 422, title: 'Without network nothing could wake the VM' },
  address_not_allowed: { status: 422, title: 'The address is outside the ranges of this host' },
  url_not_allowed: { status: 422, title: 'The outbound policy of this host does not allow the URL' },
  upgrade_required: { status: 426, title: 'The route speaks WebSocket' },
  headers_too_large: { status: 431, title: 'The request headers are too large' },
  internal: { status: 500, title: 'A bug in vmhostd' },
  starting_up: { status: 503, title: 'The daemon is starting' },
} as const satisfies Record<string, { status: number; title: string }>

export type RejectionCode = keyof typeof rejections

export const faults = {
  systemd_unavailable: { retry: 'backoff', title: 'systemd does not answer over D-Bus' },
  unit_start_failed: { retry: 'backoff', title: 'systemd could not start the unit of the VM' },
  unit_stop_failed: { retry: 'backoff', title: 'systemd could not stop the unit of the VM' },
  unit_foreign: { retry: 'backoff', title: 'The unit of that name belongs to another VM of that id' },
  vm_exited: { retry: 'backoff', title: 'The monitor of the VM ended by itself' },
  monitor_missing: { retry: 'backoff', title: 'The monitor program is not installed or cannot be run' },
  monitor_unreachable: { retry: 'backoff', title: 'The monitor of the VM does not answer' },
  monitor_refused: { retry: 'backoff', title: 'The monitor of the VM refused a command' },
  monitor_detached: { retry: 'backoff', title: 'The monitor has lost its network device' },
  guest_over: { retry: 'backoff', title: 'The guest has ended, and its monitor still runs' },
  disk_io_error: { retry: 'backoff', title: 'The guest is paused because its disk failed' },
  processes_left: { retry: 'backoff', title: 'Processes are left of a VM whose unit is gone' },
  wait_overdue: { retry: 'backoff', title: 'The host takes longer than expected' },
  console_unprotected: {
    retry: 'backoff',
    title: 'The console of the VM could not be made to outlive the daemon',
  },
  no_console_place: { retry: 'backoff', title: 'The descriptor store has no place for another console' },
  storage_inspection_failed: { retry: 'backoff', title: 'The storage pool could not be inspected' },
  capacity_unknown: {
    retry: 'backoff',
    title: 'The host could not be inspected, so nothing can be promised',
  },
  disk_foreign: { retry: 'backoff', title: 'The disk in the pool belongs to another VM of that id' },
  disk_missing: { retry: 'backoff', title: 'The disk of the VM is gone from the pool' },
  storage_read_only: { retry: 'backoff', title: 'The storage pool is read-only' },
  storage_full: { retry: 'backoff', title: 'The storage pool is full' },
  storage_failed: { retry: 'backoff', title: 'An operation on the storage pool failed' },
  disk_smaller_than_image: { retry: 'on-change', title: 'The disk is smaller than its image' },
  image_source_refused: { retry: 'on-change', title: 'The image URL is not allowed on this host' },
  image_too_large: { retry: 'on-change', title: 'The image is larger than this host takes' },
  image_unsuitable: {
    retry: 'on-change',
    title: 'The image is of another kind than its part in the VM needs',
  },
  image_unavailable: { retry: 'backoff', title: 'The image could not be fetched' },
  image_integrity_failed: { retry: 'backoff', title: 'The image is not what its digest says' },
  tap_name_taken: { retry: 'backoff', title: 'The network device name is taken by a device of someone else' },
  network_failed: { retry: 'backoff', title: 'A network operation failed' },
  firewall_failed: { retry: 'backoff', title: 'nftables refused the ruleset' },
  traffic_failed: { retry: 'backoff', title: 'The traffic of the VM could not be watched or held' },
  save_failed: { retry: 'backoff', title: 'The guest could not be saved, and goes on' },
  sleep_unsupported: { retry: 'backoff', title: 'The monitor cannot save guests, so the VM never sleeps' },
  restore_failed: { retry: 'backoff', title: 'The monitor could not restore the saved guest' },
  saved_state_corrupt: { retry: 'backoff', title: 'The saved state is damaged' },
  saved_state_foreign: { retry: 'backoff', title: 'The saved state is of another VM, disk or monitor' },
  vcpus_unsupported: { retry: 'on-change', title: 'The monitor does not support that many vCPUs' },
  saved_state_too_new: { retry: 'backoff', title: 'The saved state was written by newer software' },
  snapshot_unsupported: {
    retry: 'backoff',
    title: 'The storage pool cannot share blocks, so no disk is captured',
  },
  vm_gone: { retry: 'on-change', title: 'The VM was deleted before its disk was captured' },
  vm_unsettled: {
    retry: 'backoff',
    title: 'The disk is not captured while something of the VM is under way',
  },
  staging_lost: { retry: 'on-change', title: 'What was staged of the snapshot is gone or damaged' },
  staging_stale: { retry: 'on-change', title: 'Nothing moved for so long that the staging was removed' },
  upload_urls_expired: { retry: 'on-change', title: 'The signed URLs have expired' },
  upload_busy: { retry: 'backoff', title: 'The store is busy or out of reach' },
  upload_refused: { retry: 'on-change', title: 'The store refused the upload' },
  upload_gone: { retry: 'on-change', title: 'The store does not know the upload' },
  upload_url_not_allowed: {
    retry: 'on-change',
    title: 'The outbound policy of this host does not allow the store',
  },
  upload_too_many_parts: { retry: 'on-change', title: 'The snapshot has more parts than a store takes' },
  state_unwritable: { retry: 'backoff', title: 'The state directory cannot be written' },
  step_deadline: { retry: 'backoff', title: 'A step took longer than its deadline' },
  not_converging: { retry: 'backoff', title: 'The steps succeed, but the host does not become as desired' },
  tool_missing: { retry: 'backoff', title: 'A program that the host needs is not installed' },
  bug: {
    retry: 'on-change',
    title: 'A bug in vmhostd stopped the work on this VM, which is left as it is',
  },
} as const satisfies Record<string, { retry: RetryClass; title: string }>

export type FaultCode = keyof typeof faults

/** A refusal of a request; core checks return it and never throw it. */
export type Rejection = {
  readonly code: RejectionCode
  /** Says what to do, in words for the caller. */
  readonly detail: string
  readonly errors?: readonly { readonly pointer: string; readonly code: string; readonly detail: string }[]
}

/**
 * The host could not do or report something. Only drivers throw it. The message says what this level was doing and to
 * which object; the cause is chained, never pasted. A message longer than `limits.faultCharactersMax` is cut.
 */
export class HostFault extends Error {
  override readonly name = 'HostFault'
  readonly code: FaultCode
  readonly retry: RetryClass

  constructor(code: FaultCode, message: string, options: { cause?: unknown; retry?: RetryClass } = {}) {
    super(
      cutText(message, limits.faultCharactersMax),
      options.cause === undefined ? {} : { cause: options.cause },
    )
    this.code = code
    this.retry = options.retry ?? faults[code].retry
  }
}
