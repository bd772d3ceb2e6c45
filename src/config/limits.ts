import { capacityLimits } from './capacity-limits.ts'
import { blockingLimits } from './blocking-limits.ts'
import { imageLimits } from './image-limits.ts'
import { clientLimits } from './client-limits.ts'

/** Every bound of the system, with its unit: what this daemon refuses, or stops waiting for. */
export const limits = {
  /** Request bodies. */
  bodyBytesMax: 1024 * 1024,
  /** Bytes of a too large body that are discarded after the answer, for clients that write all before they read. */
  refusedBodyBytesMax: 32 * 1024 * 1024,
  refusedBodyMs: 10_000,
  userDataBytesMax: 256 * 1024,
  sshKeysMax: 64,
  sshKeyBytesMax: 8 * 1024,
  urlBytesMax: 8 * 1024,
  /** Characters of the host in a URL: the longest name in DNS (RFC 1035, 2.3.4). */
  urlHostCharactersMax: 253,
  /** Characters of each message in the chain of a fault. */
  faultCharactersMax: 2000,
  /** Findings reported about one request; the schema's checker stops there by itself. */
  findingsTold: 8,
  kernelArgumentsBytesMax: 1024,
  listItemsDefault: 100,
  listItemsMax: 1000,

  cpuMillicoresMin: 100,
  /** 32 guest vCPUs, the most a Firecracker guest can have. */
  cpuMillicoresMax: 32_000,
  memoryMibMin: 64,
  memoryMibMax: 1024 * 1024,
  diskMibMin: 1,
  diskMibMax: 16 * 1024 * 1024,
  diskIopsMin: 10,
  diskIopsMax: 10_000_000,
  diskMibPerSecondMin: 1,
  diskMibPerSecondMax: 100_000,
  bandwidthMbitPerSecondMin: 1,
  bandwidthMbitPerSecondMax: 100_000,
  inboundRulesMax: 64,
  inboundPortsMax: 32,
  inboundSourcesMax: 256,
  labelsMax: 64,
  /** Revisions that a start of the daemon may skip. The 2^53 revisions never run out. */
  revisionsReserved: 100_000,
  /** How long the daemon waits for a database that another process has locked. The event loop is blocked meanwhile. */
  databaseBusyMs: 20,
  /** How long no other write is tried after one failed, because each may cost the wait above. */
  stateRetryMs: 250,
  /** The longest long poll that Prefer: wait may ask for. */
  waitSecondsMax: 60,
  sleepAfterIdleSecondsMax: 365 * 24 * 3600,

  /** A VM that was woken stays awake at least this long, whatever its timeout. */
  awakeMsMin: 3000,
  /** A sleep that traffic ends sooner than this was not worth its save. */
  shortSleepMs: 10_000,
  /** Short sleeps in a row without effect; each further one doubles the idle timeout, up to the longest. */
  shortSleepsFree: 3,
  sleepBackoffMsMax: 600_000,
  /** Guests that are saved at the same time, because they share the disk. */
  savesMax: 4,
  /** Bytes of a saved guest that are written to the disk at once; then another save may run, or this one ends. */
  saveFlushBytes: 32 * 1024 * 1024,
  /** Such writes running at once, over all saves. Each occupies one of Node's four threads for files. */
  saveFlushesMax: 2,
  /** A saved state younger than this is trusted; an older one is verified before a wake. */
  savedUncheckedMs: 10 * 60_000,
  /** An interrupted checksum continues from where it stopped if it began less than this long ago. */
  checksumProgressMs: 6 * 3_600_000,
  /** How long the space of a removed saved state waits to be freed; by then its guest is awake. */
  savedDiscardMs: 1000,
  /** The shortest time between two looks at a VM that will soon be idle for long enough. */
  sleepRecheckMs: 10,
  /** Maximum age of `last_traffic_at` while a VM runs. */
  lastTrafficStepMs: 60_000,
  /** Frames held for one guest that sleeps or wakes. */
  heldFramesMax: 256,
  heldBytesMax: 1024 * 1024,
  /** A frame that waited longer is useless to its sender: clients give up a connection after about this time. */
  heldFrameAgeMs: 60_000,
  /** Buffer in which the kernel keeps held frames until the daemon takes them; a power of two. */
  trafficEventsBytes: 4 * 1024 * 1024,
  /** Delay before a program that the kernel would not load is tried again. */
  trafficLoadRetryMs: 5000,
  /** Sources and ports that may be configured as not counting. */
  ignoredSourcesMax: 1024,
  ignoredPortsMax: 64,

  /** Console output kept for each VM. */
  consoleHistoryBytes: 256 * 1024,
  /**
   * One read of a pty master: at most what the kernel has at a time (N_TTY_BUF_SIZE less one). After a filled buffer,
   * libuv continues reading in the same turn. So heavy output costs its listeners only one turn in ten.
   */
  consoleReadBytes: 4095,
  /** Viewers of one VM, in each of the two modes. */
  consoleViewersMax: 16,
  /** Output on its way to a viewer that does not read; above it, the viewer is disconnected. */
  consoleViewerBehindBytesMax: 1024 * 1024,
  /** Output of a shell on its way to its viewer. Above the first the guest waits until less than the second is left. */
  consoleShellAheadBytesMax: 256 * 1024,
  consoleShellResumeBytes: 128 * 1024,
  /** Size of one message of a viewer. */
  consoleMessageBytesMax: 64 * 1024,
  /** Messages of a viewer: far more than a fast paste or a resized window produces. */
  consoleMessagesPerSecond: 1000,
  consoleMessagesBurst: 2000,
  consoleColsMax: 1000,
  consoleRowsMax: 1000,
  /** Input that the guest has not read; above it, viewers are not read either. */
  consoleInputBytesMax: 256 * 1024,
  /** Delay between two attempts to write input that a terminal did not accept. */
  consoleInputRetryMsMin: 2,
  consoleInputRetryMsMax: 100,
  /** Waiting input that one turn of the event loop writes to one terminal. A terminal accepts about 12 KiB. */
  consoleInputTurnBytesMax: 64 * 1024,
  /** Bytes read at most from a console whose VM is gone; a pty holds far less. */
  consoleRestBytesMax: 1024 * 1024,
  /** Bytes moved for one console: its output, and again for each viewer. Above it, the guest waits. */
  consoleMovedBytesPerSecond: 64 * 1024 * 1024,
  consoleMovedBurstBytes: 1024 * 1024,
  /** Bytes moved for all consoles together: a third of a core, however many guests are noisy. */
  consolesMovedBytesPerSecond: 128 * 1024 * 1024,
  /** A viewer that has not answered a ping by the next one is gone. */
  consolePingMs: 20_000,
  /** Input read from a held-back viewer, to see whether it answers pings; above it, it is not pinged. */
  consoleHeldInputBytesMax: 256 * 1024,
  /** A viewer that does not answer a close within this time is disconnected. */
  consoleCloseMs: 2000,
  /** How long the last output of a VM or a shell may take to reach a slow viewer before the close is sent. */
  consoleLastOutputMs: 30_000,

  /** The console page: how long it waits for the reason of a refusal. */
  consolePageAskMs: 10_000,
  /** Output that the page has not drawn; above it, the page stops reading, and later continues with the newest. */
  consolePageBehindBytesMax: 2 * 1024 * 1024,
  consolePageScrollbackLines: 10_000,
  /** While a window is resized, its size is sent once it stays unchanged for this long. */
  consolePageFitMs: 100,

  /** SSH into a guest: from the first packet to the shell. A guest that wakes or boots answers within this time. */
  sshConnectMs: 15_000,
  /** For a sleeping guest: the time to wake, before `sshConnectMs` begins. */
  sshWakeMs: 30_000,
  /** Detects a guest that vanished: after two unanswered messages the session ends. */
  sshKeepaliveMs: 15_000,
  /** Bytes kept of one connection, both ways; above it, it is cut. SSH's window holds honest guests below 4 MiB. */
  sshKeptBytesMax: 8 * 1024 * 1024,
  /** Linux: 32 bytes including the final zero (useradd(8)). */
  sshUserBytesMax: 31,

  /** systemd answers in less than a millisecond, but it does nothing else while it reloads all its units. */
  busCallMs: 10_000,
  busOpenMs: 5000,
  /** A lost connection to systemd is reopened after this long, and at once by any call. */
  busReconnectMs: 250,
  /** Until systemd has read a notification of ours; like `busCallMs`. */
  notifyBarrierMs: 10_000,

  /** Passes that run at the same time over all VMs. */
  passesMax: 32,
  /** Acting passes in a row, each followed by a new look, before a VM counts as not converging. */
  actingPassesMax: 16,
  /** A settled VM is looked at again after this long, jittered, in case a watcher missed something. */
  resyncMs: 60_000,
  retrySoonMs: 1000,
  retryBackoffMsMin: 1000,
  retryBackoffMsMax: 60_000,
  /** Fraction of a delay that is random. */
  retryJitter: 0.2,
  /** A VM that ran this long before it exited starts a new streak of exits. */
  stableAfterMs: 60_000,
  monitorAnswerMs: 30_000,
  monitorRecheckMs: 10,
  /** How long a resumed guest whose disk failed is observed. By then its request has failed again, or succeeded. */
  resumeProofMs: 1000,
  resumeRecheckMs: 20,
  unitRecheckMs: 100,
  /** Between two looks at processes that were sent SIGKILL; most are gone at the first look. */
  leftoverRecheckMs: 20,
  /** systemd starts and kills units in milliseconds; one that takes this long waits for a disk or a stuck process. */
  unitWaitMs: 30_000,

  /** Deadlines of steps. */
  stepMs: 30_000,
  /** Extra time for a step that was asked to stop at its deadline. */
  stepGraceMs: 5000,
  imageFetchMs: 3_600_000,
  /** A guest of 64 GiB on the slowest supported disk: about 10 MiB/s. */
  saveMs: 6_600_000,
  restoreMs: 600_000,
  /** Added for each saved MiB: monitor and checksum read it at the same time from such a disk. */
  restoreMsPerMib: 200,
  diskCloneMs: 600_000,

  /** The control protocol of a monitor. Its longest answers are below 8 KiB; a longer line is not a monitor's. */
  qmpLineBytesMax: 128 * 1024,
  /** Characters kept of one text from a monitor: its errors, states and events. */
  monitorTextCharactersMax: 300,
  /** Until the monitor's greeting. It accepts before its main loop runs, which takes long on a busy host. */
  qmpGreetingMs: 2000,
  /** One command. Pausing waits for running disk writes. */
  qmpCommandMs: 10_000,
  /** From a wake until the agent in a guest has taken the time. Some agents look only once or twice a second. */
  guestAgentMs: 10_000,
  /** Bytes read from an agent for one question. Its answer is below 4 KiB; the rest are late answers. */
  guestAgentBytesMax: 64 * 1024,
  guestAgentLineBytesMax: 4 * 1024,
  /** Lines parsed for one question before the agent answers that question. */
  guestAgentLinesMax: 32,
  /** Memory that a QEMU process may use besides the guest's: code, heap, I/O buffers, stacks. */
  qemuOverheadMib: 128,
  /** Translated code that emulation keeps; QEMU's own default grows to 1 GiB for each guest. */
  qemuTcgCacheMib: 128,
  /** Threads of a QEMU process besides its vCPUs: at most 64 for disk I/O, and a few of its own. */
  qemuExtraTasks: 96,
  /** A 32-vCPU guest has some 300: two for each queue of each device. */
  qemuOpenFiles: 1024,

  ...imageLimits,

  /** Snapshots. S3 takes parts of 5 MiB to 5 GiB, and 10,000 of them (Amazon S3 User Guide, "multipart upload limits"). */
  partMibMin: 5,
  partMibMax: 5 * 1024,
  partsMax: 10_000,
  /** Numbers of parts without a URL that one answer holds. */
  lackingPartsTold: 100,
  /** All snapshots on record, including ended ones, until they are deleted. */
  snapshotsMax: 10_000,
  /** URLs of all snapshots as they are stored; some 500,000 of them. */
  snapshotUrlsBytesMax: 256 * 1024 * 1024,
  /** One frame of the image. A smaller one compresses worse; a larger one costs memory, and readers more per byte. */
  frameBytes: 4 * 1024 * 1024,
  /** Threads that compress, for all snapshots; at most one per core. Each snapshot has one more, for digests. */
  packThreadsMax: 4,
  /** Bytes packed beyond the oldest part that is not taken yet; above it, packing waits. */
  packAheadBytes: 64 * 1024 * 1024,
  /** Snapshots that are packed at the same time; one that waits for room in staging has no place. */
  packsMax: 2,
  /** The nice value of those threads: they use the CPU time that guests leave. */
  packNice: 19,
  /** Freezing flushes the guest's caches to its disk; a slower guest is captured as it is. Bounds a thaw too. */
  freezeMs: 5000,
  /** Between two attempts to thaw a guest that does not answer. */
  thawRetryMs: 1000,
  /** VMs whose passes wait for captures at the same time. They share the pool, and their guests are paused for it. */
  capturesMax: 4,
  /** Disks and clones flushed at once. Each uses one of Node's four threads for files, which captures need too. */
  captureFlushesMax: 2,
  /** Between two attempts to capture a disk whose VM is changing. */
  captureRetryMs: 1000,
  /** Parts of one snapshot sent at once; the configuration bounds those of all snapshots. */
  partsUnderWayMax: 4,
  /** Attempts to send one part, or the completion, before the snapshot fails; with back-off about ten minutes. */
  sendAttemptsMax: 16,
  /** The longest wait that a store may ask for. */
  retryAfterMsMax: 300_000,
  /**
   * A store has stalled if it says nothing for this long, or does not take the next `sendChunkBytes` completely. So a
   * part is sent at 2 KiB/s or faster.
   */
  sendStallMs: 30_000,
  /** If a store does not answer `Expect: 100-continue` within this time, the part is sent anyway (RFC 9110, 10.1.1). */
  sendContinueMs: 2000,
  /** One part, however slowly it moves; 5 GiB at 1.5 MiB/s. */
  sendPartMs: 3_600_000,
  /** S3 may take minutes to complete an upload of many parts. */
  completeMs: 900_000,
  /** Answers of stores are short texts; anything longer is not read. */
  storeAnswerBytesMax: 64 * 1024,
  /** Idle connections kept for the next request to any one host, and for how long. */
  outboundIdleMax: 16,
  outboundIdleMs: 15_000,
  /** The bandwidth limit lets the bytes of this much time pass at once, so that timers need not be exact. */
  sendBurstMs: 50,
  /** How often a part that is being sent reports the bytes that went out. */
  sendTellMs: 250,
  /** Bytes sent between two looks at the bandwidth limit. */
  sendChunkBytes: 64 * 1024,
  /** How often a part that is being sent records activity, so that its snapshot does not look stale. */
  snapshotActivityMs: 10_000,
  /** For this long after its start, a daemon gives up no snapshot as stale. */
  stagingGraceMs: 2 * 3_600_000,
  /** Time between two searches for staging that is stale or has no snapshot. */
  stagingSweepMs: 600_000,
  allowedHostsMax: 256,
  allowedNetworksMax: 64,
  /**
   * Connections that the kernel tracks for one guest, in each direction: those that it opens, and those opened to it. A
   * host of 4 GiB or more tracks 262,144 (nf_conntrack_max).
   */
  guestConnectionsMax: 16_384,
  /** More than any host tracks. */
  hostConnectionsMax: 16_777_216,

  /** A program such as `ip` or `nft` answers in milliseconds; one that takes this long hangs. */
  toolMs: 10_000,
  /** Bytes of standard output and of standard error each; far more than any program we run writes. */
  toolOutputBytesMax: 64 * 1024 * 1024,
  /** The kernel answers within send(2); this only bounds the wait for a lost answer. */
  netlinkAnswerMs: 100,
  /** A dump is repeated when a change came during it; this many in a row mean a host in turmoil. */
  netlinkDumpAttempts: 8,
  /** Device changes that the kernel buffers for us: some thousand. If it overflows, the daemon looks at everything. */
  netlinkEventsBytes: 4 * 1024 * 1024,
  /** Events read in one turn of the event loop; the rest waits for the next. */
  netlinkEventsPerTurn: 256,
  /** Connections removed before other work may run; some microseconds each. */
  connectionsPerTurn: 256,
  /** Chains of the firewall table read before other work may run; some ten microseconds each. */
  nftChainsPerTurn: 64,

  /** Bandwidth limits: what may pass at once at full speed. So a tick of the slowest timer (100 Hz) costs no rate. */
  bandwidthBurstMs: 10,
  /** Some twenty full frames: a short answer need not wait, whatever the rate. */
  bandwidthBurstBytesMin: 32 * 1024,
  /** Frames above the rate wait this long at most, then are dropped: TCP slows down before its packets get old. */
  bandwidthQueueMs: 50,
  bandwidthQueueBytesMax: 4 * 1024 * 1024,

  shutdownBoundMs: 10_000,
  /** Extra time that a stop of the daemon may take beyond its bound, to close the store and the drivers. */
  shutdownMarginMs: 5_000,

  /** If systemd did not answer at a start, the adopted consoles are counted again this often. */
  adoptionRecheckMs: 5000,

  /** How often the host's figures are read, with a few system calls; so a lost or returning pool is noticed. */
  figuresEveryMs: 5000,
  /** How often the lengths of images in the pool are read, to check requests; one call to the pool for each image. */
  imageSizesEveryMs: 60_000,
  /** A mounted pool answers in microseconds, a busy disk within a second or two; a slower pool counts as silent. */
  hostLookMs: 3000,
  /** Looks of VMs at their storage that run at once. */
  poolLooksMax: 4,
  /** Figures older than this are unknown. It covers two looks of the longest duration, and the pause between them. */
  figuresAgeMsMax: 15_000,

  /** The controller listener. A client that holds a connection must send something within these times. */
  handshakeMs: 10_000,
  /**
   * Connections whose handshake is not finished. One peer: as many as a controller opens when it comes back with a long
   * poll for each of its VMs. All peers: below `connectionsMax`, so that they never keep a controller out; above it,
   * the oldest is closed.
   */
  handshakesPerPeerMax: 1024,
  handshakesMax: 2048,
  /** Failed handshakes that one peer may make in addition to those at once; above it, its connections are refused. */
  handshakeFailuresPerSecond: 10,
  /** Peers whose failures are remembered; the peer that was quiet longest is forgotten first. */
  handshakePeersMax: 4096,
  /** Between two log lines about refused handshakes of one reason. */
  handshakeLogMs: 10_000,
  requestHeadersMs: 10_000,
  requestMs: 30_000,
  /** Longer than the minute between two polls of a calm controller, so that it keeps its connection. */
  keepAliveMs: 75_000,
  /** How often the server checks for connections past the deadlines above. */
  connectionCheckMs: 5000,
  /** Over HTTP/1.1 a long poll holds one: room for one per VM on a full host; more is a leak of the client. */
  connectionsMax: 4096,
  headerBytesMax: 16 * 1024,
  /** How often certificate files are checked; a renewed one is served from the next handshake on. */
  certificateRecheckMs: 10_000,
  /** The daemon warns about a certificate that expires sooner than this. */
  certificateWarningDays: 21,
  /** How often it warns, until the certificate is replaced. */
  certificateWarnEveryMs: 24 * 3_600_000,
  /** "vmhostd setup": long, because replacing an authority means touching every host. */
  authorityValidityDays: 3650,
  /** "vmhostd setup": the longest validity that common TLS clients accept from a server. */
  certificateValidityDays: 825,

  ...capacityLimits,
  ...clientLimits,
  ...blockingLimits,
} as const
