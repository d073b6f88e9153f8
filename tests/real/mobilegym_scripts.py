"""What a scripted agent does on 32 of MobileGym's tasks, in our own words: most are solved, some are left half done.

A line is `tap TEXT` (of the element with this text, or with `#N` the one of this number), `at X,Y`, `type TEXT`,
`launch APP`, `up` (a swipe), `back`, `enter` or `wait`.
"""

from mobilerl.envs.base import Action, Back, Enter, Launch, Swipe, Tap, Type, Wait
from mobilerl.policy.screen import Screen

SETTINGS = "tap 我#-1 / tap 设置"
SCRIPTS = {
    "alipay.CheckBalance": "launch 答题卡 / at 499,195 / type 100023.46 / back / tap 提交答案",
    "alipay.EnableDarkMode": "tap 我的#-1 / at 931,68 / tap 通用 / tap 深色模式 / tap 深色模式#-1",
    "alipay.EnableRefreshSound": "tap 我的#-1 / at 931,68 / tap 通用 / up / up / wait / at 853,750",
    "alipay.ShowReceiveQRCode": "tap 收付款 / tap 收钱",
    "calendar.ChangeDefaultReminder": "tap 更多 / tap 设置 / up / up / wait / tap 默认提前提醒时间",
    "calendar.ToggleShowWeekNumber": "tap 更多 / tap 设置 / tap 显示周数",
    "clock.AddWorldCity": "tap 世界时钟 / tap 添加 / tap 阿拉木图",
    "clock.CheckAlarmNote": "launch 答题卡 / at 499,195 / type 拿东西 / back / tap 提交答案",
    "clock.DeleteAlarm": "up / wait / at 859,678",
    "clock.ToggleAlarm": "up / wait / at 859,678",
    "notes.AddNewTodo": "tap 待办#-1 / tap 新建待办 / type 预约体检 / enter",
    "notes.ChangeViewMode": "tap 设置 / tap 双列",
    "notes.CreateNewNote": "tap 新建笔记 / at 499,210 / type 读书笔记 / back / tap 返回",
    "notes.DeleteTodo": "tap 待办#-1 / at 155,493",
    "notes.ReadNotesCount": "launch 答题卡 / at 499,195 / type 6 / back / tap 提交答案",
    "sms.OpenConversationBySender": "tap 中国联通",
    "sms.ToggleFreeNetworkSetting": "at 914,97 / tap 网络短信设置 / at 818,554",
    "tencent_meeting.CheckContactCount": "launch 答题卡 / at 499,195 / type 5 / back / tap 提交答案",
    "weather.EnableNightDnd": "tap 更多设置 / tap 设置 / tap 夜间免打扰",
    "weather.SwitchWindUnit": "tap 更多设置 / tap 设置 / tap 风力单位 / at 499,638",
    "wechat.ConditionalReplyToBoss": "tap Boss / at 448,960 / type 上次的项目一切顺利 / enter",
    "wechat.DeauthorizeApp": f"{SETTINGS} / tap 个人信息与权限 / tap 授权管理 / tap 拼多多 / tap 解除授权",
    "wechat.EnableDarkMode": f"{SETTINGS} / tap 通用 / tap 深色模式 / at 888,137 / tap 深色模式#-1 / tap 完成",
    "wechat.OpenBlacklist": f"{SETTINGS} / tap 朋友权限 / tap 通讯录黑名单",
    "wechat.OpenNewFriends": "tap 通讯录#-1 / tap 新的朋友",
    "wechat.OpenRadarAddFriend": "at 931,72 / tap 添加朋友 / tap 雷达",
    "wechat.ReadContactRegion": "launch 答题卡 / at 499,195 / type 中国 广州 / back / tap 提交答案",
    "wechat.ReadMyWxid": "launch 答题卡 / at 499,195 / type xiaoming / back / tap 提交答案",
    "wechat.SetMomentsVisibleRange": f"{SETTINGS} / tap 朋友权限 / tap 朋友圈 / tap 最近三天 / tap 最近一个月",
    "wechat.SetPatText": f"{SETTINGS} / tap 个人资料 / tap 拍一拍 / type 并笑了一下 / tap 完成",
    "wechat.ToggleFriendConfirmation": f"{SETTINGS} / tap 朋友权限 / at 888,136 / at 903,276",
    "wechat_reading.UnfollowUser": "tap 我#-1 / tap 关注 / tap 已关注",
}


def action(line: str, screen: Screen) -> Action:
    """The action of a line on this screen."""
    what, _, rest = line.partition(" ")
    match what:
        case "tap":
            text, _, number = rest.partition("#")
            found = [e for e in screen.elements if text in e.text.split("|")]
            found = found or [e for e in screen.elements if text in e.text]
            return Tap(*found[int(number or 0)].centre)
        case "at":
            x, y = rest.split(",")
            return Tap(int(x), int(y))
        case "type":
            return Type(rest)
        case "launch":
            return Launch(rest)
        case "up":
            return Swipe(499, 700, 499, 300)
        case "back":
            return Back()
        case "enter":
            return Enter()
    return Wait(1.0)
