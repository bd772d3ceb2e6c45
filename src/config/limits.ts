import { capacityLimits } from './capacity-limits.ts'
import { blockingLimits } from './blocking-limits.ts'
import { imageLimits } from './image-limits.ts'
import { clientLimits } from './client-limits.ts'

/** Every bound of the system, with its unit. One place to see what this daemon will refuse or give up waiting for. */
export const limits = {
  /** Request bodies. */
  bodyBytesMax: 1024 * 1024,
  /** Of a body that is too large, read and thrown away after the answer, for clients that read it only when they have written all. */
  refusedBodyBytesMax: 32 * 1024 * 1024,
  refusedBodyMs: 10_000,
  userDataBytesMax: 256 * 1024,
  sshKeysMax: 64,
  sshKeyBytesMax: 8 * 1024,
  urlBytesMax: 8 * 1024,
  /** Of the host in a URL: the longest name in DNS (RFC 1035, 2.3.4). */
  urlHostCharactersMax: 253,
  /** Of each message in the chain of a fault. */
  faultCharactersMax: 2000,
  /** Of what is wrong with a request, so much is told; the schema's checker stops there by itself. */
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
  /** Revisions that a start of the daemon may skip. 2^53 of them last for ever. */
  revisionsReserved: 100_000,
  /** The wait for a database that another process has locked: the event loop stands still so long. */
  databaseBusyMs: 20,
  /** After a write that failed no other is tried for so long: each may cost the wait above. */
  stateRetryMs: 250,
  /** A long poll: as long as Prefer: wait may ask for. */
  waitSecondsMax: 60,
  sleepAfterIdleSecondsMax: 365 * 24 * 3600,

  /** A VM that was woken runs at least this long before it sleeps again, whatever its timeout. */
  awakeMsMin: 3000,
  /** A sleep that traffic ends sooner than this was not worth its save. */
  shortSleepMs: 10_000,
  /** Short sleeps in a row that cost nothing; each one more doubles the idle timeout, up to the longest. */
  shortSleepsFree: 3,
  sleepBackoffMsMax: 600_000,
  /** Guests that are saved at the same time: they share the disk. */
  savesMax: 4,
  /** What is written to the disk at once of a saved guest; then others have a turn, or the save is given up. */
  saveFlushBytes: 32 * 1024 * 1024,
  /** Such writes under way over all saves. Each holds one of Node's four threads for files. */
  saveFlushesMax: 2,
  /** For so long what was saved counts as kept by the disk as it was given to it; later it is read before a wake. */
  savedUncheckedMs: 10 * 60_000,
  /** For so long after its begin a checksum that was cut off goes on where it stood. */
  checksumProgressMs: 6 * 3_600_000,
  /** How long the space of a removed saved state waits to be freed; by then its guest is awake. */
  savedDiscardMs: 1000,
  /** The least time between two looks at a VM that is about to be idle for long enough. */
  sleepRecheckMs: 10,
  /** How old `last_traffic_at` may be while a VM runs. */
  lastTrafficStepMs: 60_000,
  /** Frames held for one guest that sleeps or wakes. */
  heldFramesMax: 256,
  heldBytesMax: 1024 * 1024,
  /** A frame that waited longer is of no use to who sent it: a client gives up a connection after about that. */
  heldFrameAgeMs: 60_000,
  /** What the kernel keeps of held frames until the daemon takes them; a power of two. */
  trafficEventsBytes: 4 * 1024 * 1024,
  /** A program that the kernel would not load is tried again after this long. */
  trafficLoadRetryMs: 5000,
  /** Sources and ports that may be configured as not counting. */
  ignoredSourcesMax: 1024,
  ignoredPortsMax: 64,

  /** Console output kept for each VM. */
  consoleHistoryBytes: 256 * 1024,
  /**
   * One read of a pty master. No more than the kernel has at a time (N_TTY_BUF_SIZE less one): libuv goes on reading in the
   * same turn after a buffer that was filled, so that much output costs its listeners one turn in ten.
   */
  consoleReadBytes: 4095,
  /** Of one VM, in each of both modes. */
  consoleViewersMax: 16,
  /** Output on its way to a viewer that does not read; past it the viewer goes. */
  consoleViewerBehindBytesMax: 1024 * 1024,
  /** Output of a shell on its way to its viewer; past it the guest waits, until there is less than the second. */
  consoleShellAheadBytesMax: 256 * 1024,
  consoleShellResumeBytes: 128 * 1024,
  /** One message of a viewer. */
  consoleMessageBytesMax: 64 * 1024,
  /** Messages of a viewer: far above what a fast paste or a dragged window makes. */
  consoleMessagesPerSecond: 1000,
  consoleMessagesBurst: 2000,
  consoleColsMax: 1000,
  consoleRowsMax: 1000,
  /** Input that the guest has not read; past it, viewers are not read either. */
  consoleInputBytesMax: 256 * 1024,
  /** Between two tries to give a terminal the input that it would not take. */
  consoleInputRetryMsMin: 2,
  consoleInputRetryMsMax: 100,
  /** Of what is waiting, what one turn of the event loop gives to one terminal; that takes about 12 KiB. */
  consoleInputTurnBytesMax: 64 * 1024,
  /** What is read of a console whose VM is gone, at most; a pty holds far less. */
  consoleRestBytesMax: 1024 * 1024,
  /** What the daemon moves for one console: its output, and again for each viewer. Past it the guest waits, as on a serial line. */
  consoleMovedBytesPerSecond: 64 * 1024 * 1024,
  consoleMovedBurstBytes: 1024 * 1024,
  /** The same for all consoles together: a third of a core, however many guests are noisy. */
  consolesMovedBytesPerSecond: 128 * 1024 * 1024,
  /** A viewer that has not answered a ping by the next one is gone. */
  consolePingMs: 20_000,
  /** Input that is read from a viewer who is held back, to see whether it answers pings; past it, it is not asked. */
  consoleHeldInputBytesMax: 256 * 1024,
  /** A viewer that does not answer a close is cut off. */
  consoleCloseMs: 2000,
  /** How long the last output of a VM or a shell may take to leave for a slow viewer, before the close goes out. */
  consoleLastOutputMs: 30_000,

  /** The console page: how long it waits to hear why it was refused. */
  consolePageAskMs: 10_000,
  /** Output that it has not drawn; past it the page reads no more until it has, and then goes on with the newest. */
  consolePageBehindBytesMax: 2 * 1024 * 1024,
  consolePageScrollbackLines: 10_000,
  /** While a window is dragged, its size is told once it rests. */
  consolePageFitMs: 100,

  /** SSH into a guest: from the first packet to the shell. A guest that wakes or boots answers within it. */
  sshConnectMs: 15_000,
  /** For a guest that sleeps, before that begins. */
  sshWakeMs: 30_000,
  /** Where a guest is gone without a word; twice unanswered, and the session ends. */
  sshKeepaliveMs: 15_000,
  /** What is kept of one connection, both ways. SSH's window holds an honest guest below 4 MiB; past this it is cut off. */
  sshKeptBytesMax: 8 * 1024 * 1024,
  /** Linux: 32 bytes with the final zero (useradd(8)). */
  sshUserBytesMax: 31,

  /** systemd answers in less than a millisecond, but does nothing else while it reloads all its units. */
  busCallMs: 10_000,
  busOpenMs: 5000,
  /** A lost connection to systemd is tried again after this long, and at once by any call. */
  busReconnectMs: 250,
  /** Until systemd has read what we notified it of; as `busCallMs`. */
  notifyBarrierMs: 10_000,

  /** Passes that run at the same time over all VMs. */
  passesMax: 32,
  /** Acting passes in a row, each followed by a fresh look, before a VM counts as not converging. */
  actingPassesMax: 16,
  /** Look again at a settled VM after this long, jittered, in case a watcher missed something. */
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
  /** How long a guest whose disk failed is looked at after it was told to go on: by then its request has failed again, or not. */
  resumeProofMs: 1000,
  resumeRecheckMs: 20,
  unitRecheckMs: 100,
  /** Between two looks at processes that were sent SIGKILL; most are gone at the first. */
  leftoverRecheckMs: 20,
  /** systemd starts and kills units in milliseconds; one that takes this long waits for a disk or a stuck process. */
  unitWaitMs: 30_000,

  /** Deadlines of steps. */
  stepMs: 30_000,
  /** For a step that was told to stop at its deadline. */
  stepGraceMs: 5000,
  imageFetchMs: 3_600_000,
  /** A guest of 64 GiB on the slowest disk we would save to: about 10 MiB/s. */
  saveMs: 6_600_000,
  restoreMs: 600_000,
  /** What is added to it for each MiB that was saved: monitor and checksum read it beside one another, off such a disk. */
  restoreMsPerMib: 200,
  diskCloneMs: 600_000,

  /** The control protocol of a monitor. Its longest answers to us are below 8 KiB; a longer line is not a monitor's. */
  qmpLineBytesMax: 128 * 1024,
  /** What is kept of one text that a monitor says: its errors, states and events. */
  monitorTextCharactersMax: 300,
  /** From the connection to the monitor's greeting: it accepts before its main loop runs, on a busy host for long. */
  qmpGreetingMs: 2000,
  /** One command. Pausing waits for the disk writes under way. */
  qmpCommandMs: 10_000,
  /** From a wake until the agent in a guest took the time: some look only once or twice a second, when they get to run. */
  guestAgentMs: 10_000,
  /** What is read of an agent for one question. Its longest answer to us is below 4 KiB; the rest are answers that came too late. */
  guestAgentBytesMax: 64 * 1024,
  guestAgentLineBytesMax: 4 * 1024,
  /** Lines parsed for one question until the agent has answered the question of this time. */
  guestAgentLinesMax: 32,
  /** What a QEMU process may use besides the guest's memory: code, heap, I/O buffers, stacks. */
  qemuOverheadMib: 128,
  /** Code that emulation keeps translated; QEMU's own default grows to 1 GiB a guest. */
  qemuTcgCacheMib: 128,
  /** Threads of a QEMU process besides its vCPUs: 64 for disk I/O at most, and a few of its own. */
  qemuExtraTasks: 96,
  /** A 32-vCPU guest has some 300: two for each queue of each device. */
  qemuOpenFiles: 1024,

  ...imageLimits,

  /** Snapshots. S3 takes parts of 5 MiB to 5 GiB, and 10,000 of them (Amazon S3 User Guide, "multipart upload limits"). */
  partMibMin: 5,
  partMibMax: 5 * 1024,
  partsMax: 10_000,
  /** Numbers of parts without a URL that one answer tells. */
  lackingPartsTold: 100,
  /** All that are on record, ended ones included, until they are deleted. */
  snapshotsMax: 10_000,
  /** All URLs of all snapshots, as they are kept; some 500,000 of them. */
  snapshotUrlsBytesMax: 256 * 1024 * 1024,
  /** One frame of the image. Smaller compresses worse, larger costs each thread memory and a reader more for one byte. */
  frameBytes: 4 * 1024 * 1024,
  /** Threads that compress, for all snapshots, and no more than there are cores. Each snapshot has one more, for digests. */
  packThreadsMax: 4,
  /** What is packed beyond the oldest part that nobody has taken yet; then packing waits. */
  packAheadBytes: 64 * 1024 * 1024,
  /** Snapshots that are packed at the same time; one that waits for room in staging has no place. */
  packsMax: 2,
  /** The nice value of those threads: they have what guests leave over. */
  packNice: 19,
  /** Freezing flushes the guest's caches to its disk; a guest that takes longer is captured as it is. So long one thaw takes too. */
  freezeMs: 5000,
  /** Between two tries to thaw a guest that does not answer. */
  thawRetryMs: 1000,
  /** VMs that are held still at the same time for captures: they share the pool, and their guests stand still for it. */
  capturesMax: 4,
  /** Disks and clones that are flushed at the same time, each in one of Node's four threads for files, which captures need too. */
  captureFlushesMax: 2,
  /** Between two tries to capture a disk whose VM is in the middle of something. */
  captureRetryMs: 1000,
  /** Parts of one snapshot under way at once, and those of all by configuration. */
  partsUnderWayMax: 4,
  /** Tries of one part, or of the completion, before the snapshot has failed; with back-off about ten minutes. */
  sendAttemptsMax: 16,
  /** No longer wait is granted to a store that asks for one. */
  retryAfterMsMax: 300_000,
  /**
   * A store that says nothing for this long, or takes none of the next `sendChunkBytes` whole, has stalled: 2 KiB/s is the
   * least at which a part is sent.
   */
  sendStallMs: 30_000,
  /** A store that says nothing about `Expect: 100-continue` for this long is sent the part all the same (RFC 9110, 10.1.1). */
  sendContinueMs: 2000,
  /** One part, however slowly it moves; 5 GiB at 1.5 MiB/s. */
  sendPartMs: 3_600_000,
  /** S3 may take minutes to complete an upload of many parts. */
  completeMs: 900_000,
  /** Answers of stores are short texts; what is longer is not read. */
  storeAnswerBytesMax: 64 * 1024,
  /** Connections that are kept for the next request, to any one host, and for how long. */
  outboundIdleMax: 16,
  outboundIdleMs: 15_000,
  /** The bandwidth limit lets so much of a time go at once, so that timers need not be exact. */
  sendBurstMs: 50,
  /** How often a part that is under way tells what went out. */
  sendTellMs: 250,
  /** What is sent between two looks at the bandwidth limit. */
  sendChunkBytes: 64 * 1024,
  /** A part that is under way tells so, that it does not look stale. */
  snapshotActivityMs: 10_000,
  /** For so long after its start a daemon gives up no snapshot, however long nothing moved. */
  stagingGraceMs: 2 * 3_600_000,
  /** Time between two searches for staging that is stale or has no snapshot. */
  stagingSweepMs: 600_000,
  allowedHostsMax: 256,
  allowedNetworksMax: 64,
  /**
   * Connections that the kernel keeps track of for one guest, in each direction: those that it opens, and those opened to it.
   * A host of 4 GiB or more keeps track of 262,144 (nf_conntrack_max).
   */
  guestConnectionsMax: 16_384,
  /** More than any host keeps track of. */
  hostConnectionsMax: 16_777_216,

  /** A program such as `ip` or `nft` answers in milliseconds; one that takes this long hangs. */
  toolMs: 10_000,
  /** Of standard output and standard error each; far more than any program that we run has to say. */
  toolOutputBytesMax: 64 * 1024 * 1024,
  /** The kernel answers within send(2); this only bounds the wait for an answer that was lost. */
  netlinkAnswerMs: 100,
  /** A dump is taken again when a change overtook it; so many in a row mean a host in turmoil. */
  netlinkDumpAttempts: 8,
  /** What the kernel keeps for us of changes to devices until we read it: some thousand. Past it we look at everything. */
  netlinkEventsBytes: 4 * 1024 * 1024,
  /** Read in one turn of the event loop; the rest waits for the next. */
  netlinkEventsPerTurn: 256,
  /** Connections that are removed before others may run; some microseconds each. */
  connectionsPerTurn: 256,
  /** Chains of the firewall table that are read before others may run; some ten microseconds each. */
  nftChainsPerTurn: 64,

  /** Bandwidth limits: what may pass at once at full speed. A tick of the slowest kernel timer (100 Hz) costs no rate then. */
  bandwidthBurstMs: 10,
  /** Some twenty full frames: a short answer need not wait, whatever the rate. */
  bandwidthBurstBytesMin: 32 * 1024,
  /** What is over the rate waits this long at most, then it is dropped: TCP slows down before its packets get old. */
  bandwidthQueueMs: 50,
  bandwidthQueueBytesMax: 4 * 1024 * 1024,

  shutdownBoundMs: 10_000,
  /** What a stop of the daemon may take beyond its bound: the store and the drivers are closed in it. */
  shutdownMarginMs: 5_000,

  /** After a start at which systemd did not answer, the consoles that were taken over are counted again this often. */
  adoptionRecheckMs: 5000,

  /** The host's figures are looked at this often: a pool that went or came back is noticed within it, for a few system calls. */
  figuresEveryMs: 5000,
  /** The lengths of the images in the pool, which requests are held against; a call to the pool for each image. */
  imageSizesEveryMs: 60_000,
  /** A mounted pool answers in microseconds, a busy disk within a second or two; past this it does not answer. */
  hostLookMs: 3000,
  /** Looks of VMs at their storage that run at once. */
  poolLooksMax: 4,
  /** Figures older than this are unknown. Two looks, each as long as it may take, and the pause between them fit in. */
  figuresAgeMsMax: 15_000,

  /** The controller listener. A client that holds a connection must speak within these. */
  handshakeMs: 10_000,
  /**
   * Connections whose handshake is not over. Of one peer: as many as a controller opens at once that comes back with a long poll
   * for each of its VMs. Of all: below `connectionsMax`, so that they never keep a controller out; past it the oldest is closed.
   */
  handshakesPerPeerMax: 1024,
  handshakesMax: 2048,
  /** Failed handshakes of one peer that it is let to make besides those at once; past them its connections are refused. */
  handshakeFailuresPerSecond: 10,
  /** Peers whose failures are remembered; the one that was quiet longest is forgotten first. */
  handshakePeersMax: 4096,
  /** Between two log lines about refused handshakes of one reason. */
  handshakeLogMs: 10_000,
  requestHeadersMs: 10_000,
  requestMs: 30_000,
  /** Longer than the minute between two polls of a calm controller, so that it keeps its connection. */
  keepAliveMs: 75_000,
  /** How often the server looks for connections past the deadlines above. */
  connectionCheckMs: 5000,
  /** A long poll holds one over HTTP/1.1: room for one a VM on a full host; more is a leak at the other end. */
  connectionsMax: 4096,
  headerBytesMax: 16 * 1024,
  /** Certificate files are looked at this often; a renewed one is served from the next handshake on. */
  certificateRecheckMs: 10_000,
  /** A certificate that ends sooner than this is warned of. */
  certificateWarningDays: 21,
  /** How often, as long as it is not replaced. */
  certificateWarnEveryMs: 24 * 3_600_000,
  /** "vmhostd setup": long, since replacing an authority means touching every host. */
  authorityValidityDays: 3650,
  /** "vmhostd setup": the longest that common TLS clients accept of a server. */
  certificateValidityDays: 825,

  ...capacityLimits,
  ...clientLimits,
  ...blockingLimits,
} as const
