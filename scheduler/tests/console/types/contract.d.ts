// Made by contract.js from proto/; do not edit.
declare namespace pb {
  interface AlarmRule {
    name?: string;
    displayName?: string;
    condition?: string;
    filter?: string;
    threshold?: number;
    duration?: string;
    channels?: Channel[];
    repeatInterval?: string;
    disabled?: boolean;
    etag?: string;
  }
  interface Webhook {
    url?: string;
    secret?: string;
    headers?: Record<string, string>;
  }
  interface Email {
    to?: string[];
  }
  interface ChatRobot {
    vendor?: string;
    url?: string;
    secret?: string;
  }
  interface Channel {
    webhook?: Webhook;
    email?: Email;
    chatRobot?: ChatRobot;
  }
  interface Alarm {
    name?: string;
    rule?: string;
    subject?: string;
    message?: string;
    fireTime?: string;
    resolveTime?: string;
    acknowledgeTime?: string;
    acknowledgedBy?: string;
    deliveries?: number;
    lastDeliveryError?: string;
  }
  interface CreateAlarmRuleRequest {
    parent?: string;
    alarmRuleId?: string;
    alarmRule?: AlarmRule;
    requestId?: string;
    validateOnly?: boolean;
  }
  interface GetAlarmRuleRequest {
    name?: string;
  }
  interface ListAlarmRulesRequest {
    parent?: string;
    pageSize?: number;
    pageToken?: string;
  }
  interface ListAlarmRulesResponse {
    alarmRules?: AlarmRule[];
    nextPageToken?: string;
  }
  interface UpdateAlarmRuleRequest {
    alarmRule?: AlarmRule;
    updateMask?: string;
    validateOnly?: boolean;
  }
  interface DeleteAlarmRuleRequest {
    name?: string;
    etag?: string;
  }
  interface TestAlarmRuleRequest {
    name?: string;
  }
  interface Delivery {
    channelIndex?: number;
    ok?: boolean;
    detail?: string;
  }
  interface TestAlarmRuleResponse {
    deliveries?: Delivery[];
  }
  interface ListAlarmsRequest {
    parent?: string;
    pageSize?: number;
    pageToken?: string;
    filter?: string;
  }
  interface ListAlarmsResponse {
    alarms?: Alarm[];
    nextPageToken?: string;
  }
  interface AcknowledgeAlarmRequest {
    name?: string;
    comment?: string;
  }
  interface Window {
    startTime?: string;
    endTime?: string;
  }
  interface Calendar {
    name?: string;
    displayName?: string;
    dates?: string[];
    weekdays?: number[];
    windows?: Window[];
    etag?: string;
  }
  interface CreateCalendarRequest {
    parent?: string;
    calendarId?: string;
    calendar?: Calendar;
    requestId?: string;
  }
  interface GetCalendarRequest {
    name?: string;
  }
  interface ListCalendarsRequest {
    parent?: string;
    pageSize?: number;
    pageToken?: string;
  }
  interface ListCalendarsResponse {
    calendars?: Calendar[];
    nextPageToken?: string;
  }
  interface UpdateCalendarRequest {
    calendar?: Calendar;
    updateMask?: string;
  }
  interface DeleteCalendarRequest {
    name?: string;
    etag?: string;
  }
  interface GetServerInfoRequest {}
  interface ServerInfo {
    version?: string;
    protocolMajor?: number;
    protocolMinor?: number;
    features?: string[];
    nodeId?: string;
    serverTime?: string;
    maxParamsBytes?: number;
    maxOutputBytes?: number;
    contextPath?: string;
    signInMethods?: string[];
  }
  interface GetClusterRequest {}
  interface Cluster {
    nodes?: Node[];
    queuedRuns?: string;
    runningRuns?: string;
    onlineExecutors?: number;
    storage?: string;
    problem?: string;
  }
  interface Node {
    name?: string;
    state?: string;
    version?: string;
    advertiseAddress?: string;
    startTime?: string;
    lastSeenTime?: string;
    sessions?: number;
    partitions?: number[];
    clockOffset?: string;
    lag?: string;
    databaseLatency?: string;
  }
  interface DrainNodeRequest {
    name?: string;
  }
  interface App {
    name?: string;
    displayName?: string;
    createTime?: string;
    maxConcurrency?: number;
    handlerMaxConcurrency?: Record<string, number>;
    lostAfter?: string;
    runRetention?: string;
    etag?: string;
  }
  interface UpdateAppRequest {
    app?: App;
    updateMask?: string;
  }
  interface ListAppsRequest {
    pageSize?: number;
    pageToken?: string;
  }
  interface ListAppsResponse {
    apps?: App[];
    nextPageToken?: string;
  }
  interface CreateAppRequest {
    appId?: string;
    app?: App;
    requestId?: string;
  }
  interface DeleteAppRequest {
    name?: string;
    force?: boolean;
  }
  interface ListAuditEventsRequest {
    pageSize?: number;
    pageToken?: string;
    filter?: string;
  }
  interface ListAuditEventsResponse {
    events?: AuditEvent[];
    nextPageToken?: string;
  }
  interface AuditEvent {
    time?: string;
    principal?: string;
    method?: string;
    resource?: string;
    requestId?: string;
    peerAddress?: string;
    code?: number;
    changedFields?: string[];
    id?: string;
  }
  interface Executor {
    name?: string;
    state?: string;
    cordoned?: boolean;
    instanceId?: string;
    sessionId?: string;
    sessionEpoch?: string;
    nodeId?: string;
    peerAddress?: string;
    sdk?: SdkInfo;
    handlers?: Handler[];
    labels?: Record<string, string>;
    slots?: number;
    freeSlots?: number;
    running?: string[];
    connectTime?: string;
    lastHeartbeatTime?: string;
    clockOffset?: string;
    lag?: string;
    reconnectsLastHour?: number;
    cpu?: number;
    memory?: number;
    abandonedHandlers?: number;
  }
  interface GetExecutorRequest {
    name?: string;
  }
  interface ListExecutorsRequest {
    parent?: string;
    pageSize?: number;
    pageToken?: string;
    filter?: string;
  }
  interface ListExecutorsResponse {
    executors?: Executor[];
    nextPageToken?: string;
  }
  interface CordonExecutorRequest {
    name?: string;
    reason?: string;
  }
  interface UncordonExecutorRequest {
    name?: string;
  }
  interface DisconnectExecutorRequest {
    name?: string;
    killRuns?: boolean;
  }
  interface DeleteExecutorRequest {
    name?: string;
  }
  interface ListHandlersRequest {
    parent?: string;
    pageSize?: number;
    pageToken?: string;
  }
  interface Entry {
    handler?: Handler;
    executors?: string[];
    freeSlots?: number;
  }
  interface ListHandlersResponse {
    handlers?: Entry[];
    nextPageToken?: string;
  }
  interface Grant {
    app?: string;
    role?: string;
  }
  interface User {
    name?: string;
    email?: string;
    displayName?: string;
    grants?: Grant[];
    disabled?: boolean;
    createTime?: string;
    lastLoginTime?: string;
    etag?: string;
    passwordExpired?: boolean;
  }
  interface Token {
    name?: string;
    displayName?: string;
    grants?: Grant[];
    executorIdPatterns?: string[];
    handlerPatterns?: string[];
    owner?: string;
    createTime?: string;
    expireTime?: string;
    revokeTime?: string;
    lastUsedTime?: string;
    prefix?: string;
  }
  interface LoginRequest {
    userId?: string;
    password?: string;
    apiToken?: string;
    cookie?: boolean;
  }
  interface LoginResponse {
    token?: string;
    expireTime?: string;
    passwordExpired?: boolean;
    csrfToken?: string;
  }
  interface LogoutRequest {
    everywhere?: boolean;
  }
  interface WhoAmIRequest {}
  interface WhoAmIResponse {
    principal?: string;
    grants?: Grant[];
    expireTime?: string;
    displayName?: string;
    passwordExpired?: boolean;
    csrfToken?: string;
  }
  interface CreateUserRequest {
    userId?: string;
    user?: User;
    password?: string;
    requestId?: string;
  }
  interface GetUserRequest {
    name?: string;
  }
  interface ListUsersRequest {
    pageSize?: number;
    pageToken?: string;
  }
  interface ListUsersResponse {
    users?: User[];
    nextPageToken?: string;
  }
  interface UpdateUserRequest {
    user?: User;
    updateMask?: string;
    password?: string;
    currentPassword?: string;
  }
  interface DeleteUserRequest {
    name?: string;
  }
  interface CreateTokenRequest {
    token?: Token;
    requestId?: string;
  }
  interface CreateTokenResponse {
    token?: Token;
    secret?: string;
  }
  interface ListTokensRequest {
    pageSize?: number;
    pageToken?: string;
  }
  interface ListTokensResponse {
    tokens?: Token[];
    nextPageToken?: string;
  }
  interface RevokeTokenRequest {
    name?: string;
  }
  interface Job {
    name?: string;
    displayName?: string;
    description?: string;
    state?: string;
    schedules?: Schedule[];
    handler?: string;
    params?: Payload;
    placement?: Placement;
    retry?: RetryPolicy;
    timeout?: string;
    killGrace?: string;
    overlap?: string;
    misfire?: string;
    misfireThreshold?: string;
    disconnectPolicy?: string;
    lostPolicy?: string;
    lostAfter?: string;
    priority?: number;
    labels?: Record<string, string>;
    etag?: string;
    revision?: string;
    createTime?: string;
    updateTime?: string;
    nextFireTime?: string;
    lastRun?: string;
    maxConcurrency?: number;
    maxQueued?: number;
    queueTimeout?: string;
    onSuccess?: string[];
    onFailure?: string[];
    owner?: string;
    runRetention?: string;
    misfireMax?: number;
    misfireWindow?: string;
    pauseUntilTime?: string;
    problem?: string;
    updateBy?: string;
    pauseReason?: string;
    nextDueTime?: string;
  }
  interface Schedule {
    cron?: string;
    interval?: string;
    at?: string;
    delay?: string;
    timeZone?: string;
    startTime?: string;
    endTime?: string;
    spread?: string;
    excludedDates?: string[];
    includeCalendars?: string[];
    excludeCalendars?: string[];
    cronDialect?: string;
  }
  interface Placement {
    requiredLabels?: Record<string, string>;
    shardTotal?: number;
    broadcast?: boolean;
    route?: string;
    routeKey?: string;
    busyThreshold?: number;
  }
  interface RetryPolicy {
    maxAttempts?: number;
    initialBackoff?: string;
    multiplier?: number;
    maxBackoff?: string;
    nonRetryableCodes?: string[];
    jitter?: number;
    maxLost?: number;
  }
  interface CreateJobRequest {
    parent?: string;
    jobId?: string;
    job?: Job;
    requestId?: string;
    validateOnly?: boolean;
  }
  interface GetJobRequest {
    name?: string;
  }
  interface ListJobsRequest {
    parent?: string;
    pageSize?: number;
    pageToken?: string;
    filter?: string;
    orderBy?: string;
  }
  interface ListJobsResponse {
    jobs?: Job[];
    nextPageToken?: string;
  }
  interface UpdateJobRequest {
    job?: Job;
    updateMask?: string;
    allowMissing?: boolean;
    validateOnly?: boolean;
  }
  interface DeleteJobRequest {
    name?: string;
    etag?: string;
    force?: boolean;
  }
  interface PauseJobRequest {
    name?: string;
    reason?: string;
    untilTime?: string;
  }
  interface ResumeJobRequest {
    name?: string;
  }
  interface TriggerJobRequest {
    name?: string;
    params?: Payload;
    requestId?: string;
    runTime?: string;
    labels?: Record<string, string>;
    executor?: string;
  }
  interface PreviewScheduleRequest {
    parent?: string;
    schedule?: Schedule;
    count?: number;
    after?: string;
    job?: string;
  }
  interface PreviewScheduleResponse {
    fireTimes?: string[];
    warnings?: string[];
    cronDialect?: string;
    description?: string;
    dueTimes?: string[];
  }
  interface ListJobRevisionsRequest {
    name?: string;
    pageSize?: number;
    pageToken?: string;
  }
  interface ListJobRevisionsResponse {
    jobs?: Job[];
    nextPageToken?: string;
  }
  interface RollbackJobRequest {
    name?: string;
    revision?: string;
    etag?: string;
  }
  interface BackfillJobRequest {
    name?: string;
    startTime?: string;
    endTime?: string;
    maxConcurrency?: number;
    validateOnly?: boolean;
    requestId?: string;
  }
  interface BackfillJobResponse {
    runCount?: number;
    alreadyRunCount?: number;
  }
  interface ForecastRunsRequest {
    parent?: string;
    startTime?: string;
    endTime?: string;
    pageSize?: number;
    pageToken?: string;
  }
  interface Fire {
    job?: string;
    fireTime?: string;
    timeZone?: string;
    handler?: string;
    dueTime?: string;
  }
  interface ForecastRunsResponse {
    fires?: Fire[];
    nextPageToken?: string;
  }
  interface Run {
    name?: string;
    job?: string;
    jobRevision?: string;
    state?: string;
    trigger?: string;
    triggeredBy?: string;
    fireTime?: string;
    createTime?: string;
    startTime?: string;
    endTime?: string;
    attempt?: number;
    attempts?: Attempt[];
    params?: Payload;
    output?: Payload;
    failure?: Failure;
    killReason?: string;
    parentRun?: string;
    shardIndex?: number;
    shardTotal?: number;
    progress?: number;
    progressMessage?: string;
    traceparent?: string;
    labels?: Record<string, string>;
    etag?: string;
    stateMessage?: string;
    nextAttemptTime?: string;
    dueTime?: string;
    executor?: string;
    rerunOf?: string;
    causedBy?: string;
    missedCount?: number;
    missedUntilTime?: string;
  }
  interface Attempt {
    number?: number;
    executor?: string;
    sessionId?: string;
    outcome?: string;
    failure?: Failure;
    dispatchTime?: string;
    ackTime?: string;
    startTime?: string;
    endTime?: string;
    duration?: string;
    disconnectedSince?: string;
    logRecords?: string;
    logRecordsDropped?: string;
    lateOutcome?: string;
  }
  interface GetRunRequest {
    name?: string;
    view?: string;
  }
  interface ListRunsRequest {
    parent?: string;
    pageSize?: number;
    pageToken?: string;
    filter?: string;
    orderBy?: string;
    view?: string;
  }
  interface ListRunsResponse {
    runs?: Run[];
    nextPageToken?: string;
  }
  interface CancelRunRequest {
    name?: string;
    reason?: string;
    grace?: string;
  }
  interface RerunRunRequest {
    name?: string;
    params?: Payload;
    requestId?: string;
  }
  interface WaitRunRequest {
    name?: string;
    timeout?: string;
  }
  interface WatchRunsRequest {
    parent?: string;
    filter?: string;
    resumeToken?: string;
    view?: string;
  }
  interface WatchRunsResponse {
    type?: string;
    run?: Run;
    resumeToken?: string;
  }
  interface ListRunLogsRequest {
    name?: string;
    attempt?: number;
    pageSize?: number;
    pageToken?: string;
    minLevel?: string;
    contains?: string;
  }
  interface ListRunLogsResponse {
    records?: StoredLogRecord[];
    nextPageToken?: string;
  }
  interface StoredLogRecord {
    seq?: string;
    record?: LogRecord;
    attempt?: number;
  }
  interface TailRunLogsRequest {
    name?: string;
    attempt?: number;
    afterSeq?: string;
    minLevel?: string;
  }
  interface TailRunLogsResponse {
    records?: StoredLogRecord[];
    throughSeq?: string;
    dropped?: string;
    complete?: boolean;
  }
  interface SessionRequest {
    hello?: Hello;
    heartbeat?: Heartbeat;
    runAck?: RunAck;
    killAck?: KillAck;
    progress?: Progress;
    logChunk?: LogChunk;
    result?: RunResult;
    capacity?: Capacity;
    drain?: ExecutorDrain;
    goodbye?: Goodbye;
  }
  interface SessionResponse {
    welcome?: Welcome;
    heartbeatAck?: HeartbeatAck;
    run?: RunCommand;
    kill?: KillCommand;
    logAck?: LogAck;
    resultAck?: ResultAck;
    drain?: SchedulerDrain;
    close?: Close;
  }
  interface Hello {
    protocolMajor?: number;
    protocolMinor?: number;
    features?: string[];
    app?: string;
    executorId?: string;
    instanceId?: string;
    resumeToken?: string;
    handlers?: Handler[];
    labels?: Record<string, string>;
    slots?: number;
    sdk?: SdkInfo;
    attempts?: AttemptStatus[];
    processStartTime?: string;
    lastCommandSeq?: string;
  }
  interface Handler {
    name?: string;
    maxConcurrency?: number;
    paramsSchema?: string;
    description?: string;
  }
  interface SdkInfo {
    language?: string;
    sdkVersion?: string;
    runtimeVersion?: string;
    os?: string;
    arch?: string;
    hostname?: string;
    pid?: number;
  }
  interface AttemptStatus {
    ref?: AttemptRef;
    finished?: boolean;
    startTime?: string;
  }
  interface Welcome {
    protocolMinor?: number;
    features?: string[];
    sessionId?: string;
    sessionEpoch?: string;
    resumeToken?: string;
    resumed?: boolean;
    nodeId?: string;
    serverTime?: string;
    heartbeatInterval?: string;
    heartbeatTimeout?: string;
    lostAfter?: string;
    runAckTimeout?: string;
    maxFrameBytes?: number;
    maxOutputBytes?: number;
    maxLogChunkBytes?: number;
    logWindowBytes?: number;
    peerEndpoints?: string[];
    authExpireTime?: string;
    kills?: KillCommand[];
    knownResults?: AttemptRef[];
  }
  interface Heartbeat {
    seq?: string;
    attempts?: AttemptStatus[];
    freeSlots?: number;
    cpu?: number;
    memory?: number;
    lag?: string;
    logBytesDropped?: number;
    lastCommandSeq?: string;
    abandonedHandlers?: number;
  }
  interface HeartbeatAck {
    seq?: string;
    serverTime?: string;
  }
  interface RunCommand {
    ref?: AttemptRef;
    job?: string;
    run?: string;
    handler?: string;
    params?: Payload;
    fireTime?: string;
    timeout?: string;
    deadline?: string;
    shardIndex?: number;
    shardTotal?: number;
    traceparent?: string;
    tracestate?: string;
    labels?: Record<string, string>;
    disconnectPolicy?: string;
    killGrace?: string;
    maxAttempts?: number;
    checkpoint?: Payload;
    lateness?: string;
    catchUp?: boolean;
    commandSeq?: string;
    lostAfter?: string;
    jobRevision?: string;
    causedBy?: string;
    causedByOutput?: Payload;
  }
  interface RunAck {
    ref?: AttemptRef;
    status?: string;
    failure?: Failure;
    retryAfter?: string;
  }
  interface KillCommand {
    ref?: AttemptRef;
    reason?: string;
    grace?: string;
    message?: string;
    commandSeq?: string;
  }
  interface KillAck {
    ref?: AttemptRef;
    status?: string;
  }
  interface Progress {
    ref?: AttemptRef;
    fraction?: number;
    message?: string;
    checkpoint?: Payload;
  }
  interface LogChunk {
    ref?: AttemptRef;
    firstSeq?: string;
    records?: LogRecord[];
    dropped?: string;
  }
  interface LogAck {
    ref?: AttemptRef;
    throughSeq?: string;
  }
  interface RunResult {
    ref?: AttemptRef;
    outcome?: string;
    output?: Payload;
    failure?: Failure;
    startTime?: string;
    finishTime?: string;
    duration?: string;
    lastLogSeq?: string;
    outputTruncated?: boolean;
  }
  interface ResultAck {
    ref?: AttemptRef;
    status?: string;
  }
  interface Capacity {
    freeSlots?: number;
    pausedHandlers?: string[];
    reason?: string;
  }
  interface ExecutorDrain {
    expected?: string;
  }
  interface Goodbye {
    reason?: string;
  }
  interface SchedulerDrain {
    reason?: string;
    reconnectWithin?: string;
    peerEndpoints?: string[];
    closesAfter?: string;
  }
  interface Close {
    reason?: string;
    message?: string;
    reconnect?: boolean;
  }
  interface Payload {
    contentType?: string;
    data?: string;
  }
  interface Failure {
    code?: string;
    message?: string;
    type?: string;
    stack?: string;
    nonRetryable?: boolean;
    retryAfter?: string;
  }
  interface AttemptRef {
    runId?: string;
    attempt?: number;
    fence?: string;
  }
  interface LogRecord {
    time?: string;
    level?: string;
    message?: string;
    fields?: Record<string, string>;
  }
}
